-- All that a store has, in one schema. `key` is a call's handle, `owner` a row of owners, `seq` the number of an event.
-- Names compare by their bytes, so that one index serves equality and prefixes. Times in columns of float8 are the
-- writer's, in seconds since the epoch; timestamps are this server's, and only they decide over owners.

CREATE SEQUENCE owner_ids;
CREATE SEQUENCE epochs;

CREATE TABLE owners (
    id bigint PRIMARY KEY,
    host text NOT NULL,
    boot text NOT NULL,
    pid bigint NOT NULL,
    started text NOT NULL,
    lease float8 NOT NULL,
    renewed timestamptz NOT NULL,
    judges_from timestamptz NOT NULL DEFAULT '-infinity', -- until then it takes no lease for run out
    epoch bigint NOT NULL -- an owner whose statement was not answered takes the next: what is still on its way is refused
);

CREATE TABLE calls (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL,
    place bytea NOT NULL, -- a hash of thread and caller: with the id it is the identity, short enough for an index
    thread text COLLATE "C" NOT NULL,
    caller text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    outcome text COLLATE "C", -- the state of an ended call: indexed, where a column that changes all the time is not
    seq integer NOT NULL,
    fence integer NOT NULL,
    claims integer NOT NULL,
    owner bigint,
    taken_from bigint,
    ticket bigint, -- of the claim that took it: the answer to a claim may be lost
    waiting_for text COLLATE "C",
    signal boolean NOT NULL DEFAULT false,
    watched boolean NOT NULL DEFAULT false, -- somebody elsewhere follows its events, and wants to be told
    priority bigint NOT NULL,
    created_at float8 NOT NULL,
    ended_at float8,
    bytes bigint NOT NULL, -- of its events, and of the artifacts that it names
    giver bigint, -- the process that left it to others: it gets each event in a notice, so the row is never marked as watched for it
    queue text COLLATE "C", -- in which it waits while it has no owner: the name of its tool, unless an append named another
    request_id text COLLATE "C",
    code text COLLATE "C", -- of its error
    kept boolean -- a call of an agent's turn, which stays as long as its thread: sweeps do not look at it
) WITH (
    fillfactor = 75, -- room beside it for the versions of a call under way: those need no new index entries
    autovacuum_vacuum_scale_factor = 0.05
);

CREATE UNIQUE INDEX calls_identity ON calls (id, place);
CREATE INDEX calls_thread ON calls (thread, key);
CREATE INDEX calls_tool ON calls (tool, key);
CREATE INDEX calls_outcome ON calls (outcome, key) WHERE outcome IS NOT NULL;
CREATE INDEX calls_live ON calls (owner, key) WHERE ended_at IS NULL;
CREATE INDEX calls_waiting_for ON calls (waiting_for, key) WHERE waiting_for IS NOT NULL AND ended_at IS NULL;
CREATE INDEX calls_ended ON calls (ended_at, key) WHERE ended_at IS NOT NULL AND kept IS NULL;

-- Waiting calls are claimed from caller to caller, so that a claim costs the same however many calls of one caller wait.
CREATE INDEX calls_queues ON calls (queue, caller, priority DESC, key) WHERE ended_at IS NULL AND owner IS NULL;

-- What people filter by. A plain call writes into none of these indexes but its caller's: it has no request id, and no error.
CREATE INDEX calls_request ON calls (request_id, key) WHERE request_id IS NOT NULL;
CREATE INDEX calls_code ON calls (code, key) WHERE code IS NOT NULL;
CREATE INDEX calls_tool_ended_badly ON calls (tool, outcome, key) WHERE outcome <> 'completed';
CREATE INDEX calls_caller ON calls (caller, key) WHERE caller <> '';

-- The keys of the calls that were made in each period of 300 seconds, by the clocks of their writers: none below `first`, none above
-- `last`, which is rounded up, so that it changes once for many calls.
CREATE TABLE call_times (
    period bigint PRIMARY KEY,
    first bigint NOT NULL,
    last bigint NOT NULL
);

CREATE TABLE events (
    call bigint NOT NULL,
    seq integer NOT NULL, -- of the first event in the body
    body bytea NOT NULL,
    PRIMARY KEY (call, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE slots (
    name text COLLATE "C" NOT NULL,
    owner bigint NOT NULL,
    held integer NOT NULL,
    PRIMARY KEY (name, owner)
);

-- Tokens of a rate that all owners share. `full_at`: when the bucket would be full again if no more were taken, by this server's clock.
CREATE TABLE buckets (
    name text COLLATE "C" PRIMARY KEY,
    full_at float8 NOT NULL
) WITH (fillfactor = 50); -- rows are written often: new versions need room beside them

-- Artifacts: which call names which, their bytes in pieces, and who has put one that no call names yet.

CREATE TABLE artifacts (
    call bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (call, name)
);
CREATE INDEX artifacts_name ON artifacts (name);

CREATE SEQUENCE blob_ids;
CREATE TABLE blobs (
    name text COLLATE "C" PRIMARY KEY,
    id bigint NOT NULL,
    size bigint NOT NULL
);
CREATE TABLE pieces (
    blob bigint NOT NULL,
    number integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (blob, number)
);
ALTER TABLE pieces ALTER COLUMN body SET STORAGE EXTERNAL; -- a range is read without the rest

CREATE TABLE puts (
    name text COLLATE "C" NOT NULL,
    owner bigint NOT NULL,
    number integer NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (name, owner)
);

-- Artifacts that stay although no call names them, until a time of the writer's, in seconds since the epoch.
CREATE TABLE pins (
    name text COLLATE "C" PRIMARY KEY,
    until float8 NOT NULL
);
CREATE INDEX pins_until ON pins (until);

-- Cached results. No index on what every hit changes; the few that clear by tag or sweep look at all rows.

CREATE TABLE cache (
    key text COLLATE "C" PRIMARY KEY,
    body bytea NOT NULL,
    tags text[] NOT NULL,
    bytes bigint NOT NULL,
    created_at float8 NOT NULL,
    expires_at float8 NOT NULL,
    accessed_at float8 NOT NULL,
    access_count bigint NOT NULL
) WITH (fillfactor = 75);

CREATE TABLE cache_counts (
    owner bigint PRIMARY KEY, -- a row each, so that no two owners wait for one another; 0 has those of owners that left
    hits bigint NOT NULL DEFAULT 0,
    misses bigint NOT NULL DEFAULT 0,
    evictions bigint NOT NULL DEFAULT 0
);

-- What is kept beside calls: tool health, figures, documents, and a log that only grows.

-- `place` is a hash of thread and caller, as in calls. No index on times, which every ending call changes.
CREATE TABLE tool_health (
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
    tool_version text COLLATE "C" NOT NULL DEFAULT '', -- failures in a row are of one version of the tool
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
CREATE TABLE documents (
    kind text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    key text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    version bigint NOT NULL,
    updated_at float8 NOT NULL,
    ticket bigint NOT NULL,
    PRIMARY KEY (kind, hash)
);
CREATE INDEX documents_key ON documents (kind, left(key, 200));

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
