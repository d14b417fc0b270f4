"""Language models behind one small seam; nothing here knows outputs, sessions or questions."""
