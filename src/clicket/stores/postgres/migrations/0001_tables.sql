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
    request boolean NOT NULL DEFAULT false,
    watched boolean NOT NULL DEFAULT false, -- somebody elsewhere follows its events, and wants to be told
    priority bigint NOT NULL,
    created_at float8 NOT NULL,
    ended_at float8,
    bytes bigint NOT NULL -- of its events, and of the artifacts that it names
) WITH (
    fillfactor = 75, -- room beside it for the versions of a call under way: those need no new index entries
    autovacuum_vacuum_scale_factor = 0.05
);

CREATE UNIQUE INDEX calls_identity ON calls (id, place);
CREATE INDEX calls_thread ON calls (thread, key);
CREATE INDEX calls_tool ON calls (tool, key);
CREATE INDEX calls_outcome ON calls (outcome, key) WHERE outcome IS NOT NULL;
CREATE INDEX calls_live ON calls (owner, key) WHERE ended_at IS NULL;
CREATE INDEX calls_waiting ON calls (tool, priority DESC, key) WHERE ended_at IS NULL AND owner IS NULL;
CREATE INDEX calls_ended ON calls (ended_at, key) WHERE ended_at IS NOT NULL;

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
