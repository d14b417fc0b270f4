"""One store for many hosts, on a real PostgreSQL and a real S3 server."""
