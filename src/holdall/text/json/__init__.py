"""JSON by the byte: one reader, one path language. Nothing here builds values from a document."""
