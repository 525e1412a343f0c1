-- Artifacts that stay although no call names them, until a time of the writer's, in seconds since the epoch.

CREATE TABLE pins (
    name text COLLATE "C" PRIMARY KEY,
    until float8 NOT NULL
);
CREATE INDEX pins_until ON pins (until);
