"""The tables of the fleet, as numbered migrations. A migration that was released is never changed: another follows it.

Every table has the principal, and every statement names it: two principals in one database never meet, not even where
both imported the same session. The block table of an output is beside its facts, so that a list does not load it.
"""

from typing import LiteralString

MIGRATIONS: tuple[LiteralString, ...] = (
    """
    CREATE TABLE holdall_sessions (
        principal text NOT NULL,
        id uuid NOT NULL,
        name text,                                -- none while it is being imported: nobody sees it
        created double precision NOT NULL,
        info bytea NOT NULL,                      -- what the session is; proves itself
        changes bigint NOT NULL DEFAULT 0,        -- one more with every change of an output
        place double precision NOT NULL DEFAULT '-Infinity',  -- of the last output, in lists
        tree bytea,
        lease uuid,                               -- who imports it
        PRIMARY KEY (principal, id),
        UNIQUE (principal, name)
    );
    CREATE TABLE holdall_outputs (
        principal text NOT NULL,
        session uuid NOT NULL,
        handle text NOT NULL,
        id uuid NOT NULL,
        call bytea,                               -- a hash of the call id, which may hold what no column can
        sha256 text NOT NULL DEFAULT '',
        state text NOT NULL,
        place double precision NOT NULL,
        bytes bigint NOT NULL,
        object uuid,                              -- its bytes; identical outputs of a session share them
        parts integer NOT NULL DEFAULT 0,         -- in how many objects they are; 0 is one, under its plain name
        version bigint NOT NULL,                  -- `changes` of its session when it was written
        lease uuid,                               -- who writes it
        facts bytea NOT NULL,
        blocks bytea NOT NULL,
        PRIMARY KEY (principal, session, handle),
        UNIQUE (principal, session, id),
        FOREIGN KEY (principal, session) REFERENCES holdall_sessions ON DELETE CASCADE
    );
    CREATE INDEX holdall_outputs_version ON holdall_outputs (principal, session, version);
    CREATE INDEX holdall_outputs_running ON holdall_outputs (principal, session) WHERE state = 'running';
    CREATE INDEX holdall_outputs_call ON holdall_outputs (principal, session, call) WHERE call IS NOT NULL;
    CREATE INDEX holdall_outputs_sha256 ON holdall_outputs (principal, session, sha256) WHERE object IS NOT NULL;
    CREATE INDEX holdall_outputs_object ON holdall_outputs (object) WHERE object IS NOT NULL;
    CREATE TABLE holdall_segments (
        principal text NOT NULL,
        object uuid NOT NULL,
        number integer NOT NULL,
        start bigint NOT NULL,
        length bigint NOT NULL CHECK (length > 0),
        PRIMARY KEY (object, number)
    );
    CREATE TABLE holdall_logs (
        principal text NOT NULL,
        session uuid NOT NULL,
        log text NOT NULL,
        length bigint NOT NULL,
        whole bigint NOT NULL,                    -- up to where it has whole lines
        PRIMARY KEY (principal, session, log),
        FOREIGN KEY (principal, session) REFERENCES holdall_sessions ON DELETE CASCADE
    );
    CREATE TABLE holdall_log_parts (
        principal text NOT NULL,
        session uuid NOT NULL,
        log text NOT NULL,
        start bigint NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (principal, session, log, start),
        FOREIGN KEY (principal, session, log) REFERENCES holdall_logs ON DELETE CASCADE
    );
    CREATE TABLE holdall_notes (
        principal text NOT NULL,
        session uuid NOT NULL,
        content text NOT NULL,
        key text NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (principal, session, content, key),
        FOREIGN KEY (principal, session) REFERENCES holdall_sessions ON DELETE CASCADE
    );
    CREATE TABLE holdall_leases (
        id uuid PRIMARY KEY,
        principal text NOT NULL,
        host text NOT NULL,
        renewed timestamptz NOT NULL DEFAULT clock_timestamp()
    );
    CREATE TABLE holdall_claims (
        id uuid PRIMARY KEY,
        principal text NOT NULL,
        session uuid NOT NULL,
        name text NOT NULL,
        shared boolean NOT NULL,
        lease uuid NOT NULL,
        holder text NOT NULL DEFAULT '',
        FOREIGN KEY (principal, session) REFERENCES holdall_sessions ON DELETE CASCADE
    );
    CREATE INDEX holdall_claims_name ON holdall_claims (principal, session, name);
    CREATE TABLE holdall_intents (
        object uuid PRIMARY KEY,
        principal text NOT NULL,
        lease uuid,
        doomed boolean NOT NULL DEFAULT false,    -- nobody may name the object any more; it is being removed
        bytes bigint NOT NULL DEFAULT 0,
        since timestamptz NOT NULL DEFAULT clock_timestamp()
    );
    CREATE TABLE holdall_summaries (
        principal text NOT NULL,
        session uuid NOT NULL,
        stamp text NOT NULL,
        summary text NOT NULL,
        PRIMARY KEY (principal, session)
    );
    CREATE TABLE holdall_sweeps (
        principal text PRIMARY KEY,
        at double precision NOT NULL
    );
    """,
    """
    ALTER TABLE holdall_outputs ADD COLUMN since double precision;  -- from when its retention counts; none: not known
    CREATE INDEX holdall_outputs_since ON holdall_outputs (principal, since)
        WHERE object IS NOT NULL AND state <> 'running';
    ALTER TABLE holdall_logs ADD COLUMN appended timestamptz NOT NULL DEFAULT now();
    ALTER TABLE holdall_logs ADD COLUMN joined boolean NOT NULL DEFAULT false;  -- its pieces are few and large
    CREATE INDEX holdall_logs_pieces ON holdall_logs (principal) WHERE NOT joined;
    """,
    """
    ALTER TABLE holdall_store ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid();  -- whose the objects are
    """,
)
VERSION = len(MIGRATIONS)
