"""Twenty further outputs of real tools and sixty questions about them: recipes and computed answers, no stored bytes.

`python -m bench.answers.further.make FOLDER` makes the outputs, `tasks.jsonl` and `manifest.json` in the form that
the benchmark reads. Nothing here knows how an output is shown to a model or searched, and nothing here judges.
"""
