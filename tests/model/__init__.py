"""The suite `model`: tests with a real language model, where its file is in the cache folder."""
