"""rs-bpe, as far as Holdall uses it: `from rs_bpe.bpe import openai`, then `openai.o200k_base().count(text)`."""
