-- Tokens of a rate that all owners share. `full_at`: when the bucket would be full again if no more were taken, by this server's clock.
CREATE TABLE buckets (
    name text COLLATE "C" PRIMARY KEY,
    full_at float8 NOT NULL
) WITH (fillfactor = 50); -- rows are written often: new versions need room beside them
