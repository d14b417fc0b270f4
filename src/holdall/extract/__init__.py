"""Questions about an output, answered by a model that reads it and proved against the stored bytes.

It takes an open output, a question and a policy, and knows nothing of sessions, dialects or loops. Ranges are computed
here and never taken from a model.
"""
