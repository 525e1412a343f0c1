-- What is kept beside calls: how tools stand in threads, figures, papers, and a log that only grows.

-- `place` is a hash of thread and caller, as in calls. No index on times, which every ending call changes.
CREATE TABLE standings (
    place bytea NOT NULL,
    tool text COLLATE "C" NOT NULL,
    caller text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    completions bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0,
    consecutive_failures bigint NOT NULL DEFAULT 0,
    first_success_at float8,
    last_success_at float8,
    last_failure_at float8,
    last_error text COLLATE "C" NOT NULL DEFAULT '',
    status text COLLATE "C",
    reason text COLLATE "C" NOT NULL DEFAULT '',
    by text COLLATE "C" NOT NULL DEFAULT '',
    announced text COLLATE "C" NOT NULL DEFAULT 'available',
    updated_at float8 NOT NULL,
    version bigint NOT NULL,
    ticket bigint, -- of the last one that was written whole: the answer to that may be lost
    mended boolean NOT NULL DEFAULT false, -- had the calls that were added last one that completed? `excluded` says so
    PRIMARY KEY (place, tool)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Each owner adds to rows of its own, so that no two wait for one another; 0 has those of owners that left. `label` is a
-- hash of what the row is about. A call that was counted and then erased is one less: who reads adds the rows up.
CREATE TABLE figures (
    owner bigint NOT NULL,
    label bytea NOT NULL,
    caller text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    error text COLLATE "C" NOT NULL,
    bucket integer,
    count bigint NOT NULL,
    seconds float8 NOT NULL,
    least float8 NOT NULL,
    most float8 NOT NULL,
    PRIMARY KEY (owner, label)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Keys may be longer than an index takes: they are found by a hash, and listed by their beginnings.
CREATE TABLE papers (
    kind text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    key text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    version bigint NOT NULL,
    updated_at float8 NOT NULL,
    ticket bigint NOT NULL,
    PRIMARY KEY (kind, hash)
);
CREATE INDEX papers_key ON papers (kind, left(key, 200));

CREATE TABLE audit (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at float8 NOT NULL,
    body bytea NOT NULL,
    ticket bigint NOT NULL
);
CREATE INDEX audit_ticket ON audit (ticket);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is only ever added to: % is refused', lower(TG_OP) USING ERRCODE = 'CK002';
END $$;
CREATE TRIGGER audit_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE INDEX calls_waiting_for ON calls (waiting_for, key) WHERE waiting_for IS NOT NULL AND ended_at IS NULL;

-- Remove the calls that consist of exactly these units, and what they added.
