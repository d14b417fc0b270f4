"""`./dev bench extract`: what a question about an output costs us, and what a real model answers beside other ways."""
