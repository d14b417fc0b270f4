"""Questions about an output, answered by a model that reads it and proved against the stored bytes.

It takes an open output, a question and a policy, and knows nothing of sessions, dialects or loops. Nothing that a
model says about places is believed: every range is found here.
"""
