"""SQL over kept outputs: DuckDB in a confined process."""
