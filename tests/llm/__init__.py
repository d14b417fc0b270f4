"""Language models behind their seam: the contract, and each implementation."""
