"""Every byte that a model reads: notices, schemas, prompts. Built here and nowhere else."""
