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

-- What units that ended their calls add: `runs` to standings, `sums` to figures. Rows come, and are locked, in one order for
-- everybody. A row may be of several units; it names one of them, and all count.
CREATE FUNCTION count_tallies(me bigint, runs json, sums json, fresh boolean[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF runs IS NOT NULL THEN
        INSERT INTO standings AS s (place, tool, caller, thread, completions, failures, consecutive_failures,
                first_success_at, last_success_at, last_failure_at, last_error, updated_at, version, mended)
            SELECT decode(r.place, 'hex'), r.tool, r.caller, r.thread, r.completions, r.failures, r.streak,
                r.first_success_at, r.last_success_at, r.last_failure_at, r.last_error, r.updated_at, r.writes, r.mended
            FROM json_to_recordset(runs) AS r(unit integer, place text, tool text, caller text, thread text,
                completions bigint, failures bigint, streak bigint, first_success_at float8, last_success_at float8,
                last_failure_at float8, last_error text, updated_at float8, writes bigint, mended boolean)
            WHERE fresh[r.unit]
            ON CONFLICT (place, tool) DO UPDATE SET completions = s.completions + excluded.completions,
                failures = s.failures + excluded.failures,
                consecutive_failures = CASE WHEN excluded.mended THEN 0 ELSE s.consecutive_failures END
                    + excluded.consecutive_failures,
                first_success_at = coalesce(s.first_success_at, excluded.first_success_at),
                last_success_at = coalesce(excluded.last_success_at, s.last_success_at),
                last_failure_at = coalesce(excluded.last_failure_at, s.last_failure_at),
                last_error = CASE WHEN excluded.failures > 0 THEN excluded.last_error ELSE s.last_error END,
                updated_at = excluded.updated_at, version = s.version + excluded.version, mended = excluded.mended;
    END IF;
    INSERT INTO figures AS f
        SELECT me, decode(r.label, 'hex'), r.caller, r.tool, r.outcome, r.error, r.bucket, r.count, r.seconds, r.least, r.most
        FROM json_to_recordset(sums) AS r(unit integer, label text, caller text, tool text, outcome text, error text,
            bucket integer, count bigint, seconds float8, least float8, most float8)
        WHERE fresh[r.unit]
        ON CONFLICT (owner, label) DO UPDATE SET count = f.count + excluded.count, seconds = f.seconds + excluded.seconds,
            least = least(f.least, excluded.least), most = greatest(f.most, excluded.most);
END $$;

-- The same backwards, for calls that were erased because nobody may have heard of them. Times that the call set stay.
CREATE FUNCTION uncount_tallies(me bigint, runs json, sums json, erased boolean[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    run record;
BEGIN
    FOR run IN SELECT * FROM json_to_recordset(runs) AS r(unit integer, place text, tool text, completions bigint,
        failures bigint)
    LOOP
        CONTINUE WHEN NOT erased[run.unit];
        DELETE FROM standings s WHERE s.place = decode(run.place, 'hex') AND s.tool = run.tool AND s.version = 1;
        CONTINUE WHEN FOUND; -- nothing else had ever touched it
        UPDATE standings s SET completions = greatest(s.completions - run.completions, 0),
                failures = greatest(s.failures - run.failures, 0),
                consecutive_failures = greatest(s.consecutive_failures - run.failures, 0), version = s.version + 1
            WHERE s.place = decode(run.place, 'hex') AND s.tool = run.tool;
    END LOOP;
    FOR run IN SELECT * FROM json_to_recordset(sums) AS r(unit integer, label text, caller text, tool text, outcome text,
        error text, bucket integer, count bigint, seconds float8)
    LOOP
        CONTINUE WHEN NOT erased[run.unit];
        INSERT INTO figures AS f VALUES (me, decode(run.label, 'hex'), run.caller, run.tool, run.outcome, run.error,
                run.bucket, -run.count, -run.seconds, 'infinity', '-infinity')
            ON CONFLICT (owner, label) DO UPDATE SET count = f.count - run.count, seconds = f.seconds - run.seconds;
    END LOOP;
END $$;

-- As before, and with tallies. Units of a process that knows none of them are taken as they are.
DROP FUNCTION append(bigint, bigint, boolean, json, json, bytea);
CREATE FUNCTION append(
    me bigint, my_epoch bigint, again boolean, units json, uses json, bodies bytea,
    runs json DEFAULT NULL, sums json DEFAULT NULL, alone boolean DEFAULT true,
    OUT outcomes bigint[], OUT followed bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    unit record;
    use record;
    its_key bigint;
    its_body bytea;
    is_watched boolean;
    had_ended boolean;
    weight bigint;
    start integer := 1;
    fresh boolean[] := '{}'; -- applied, and to a call that had not ended: an ending counts once
    whole boolean := true; -- so are all that end a call; else rows that are of several units (not `alone`) would be wrong
    hit_count bigint := 0;
    miss_count bigint := 0;
BEGIN
    PERFORM admit(me, my_epoch);
    outcomes := '{}';
    followed := '{}';
    FOR unit IN SELECT * FROM json_to_recordset(units) AS u(
        id text, place text, thread text, caller text, tool text, expect integer, last integer, fence integer, state text,
        created_at float8, ended_at float8, waiting_for text, request boolean, key bigint, owned boolean, priority bigint,
        size integer, artifacts json)
    LOOP
        its_body := substr(bodies, start, unit.size);
        start := start + unit.size;
        weight := unit.size;
        had_ended := false;
        IF unit.artifacts IS NOT NULL THEN
            SELECT weight + coalesce(sum(a.size), 0) INTO weight
                FROM json_to_recordset(unit.artifacts) AS a(name text, size bigint)
                WHERE NOT EXISTS (SELECT FROM artifacts k WHERE k.call = unit.key AND k.name = a.name);
        END IF;
        IF unit.expect = 0 THEN
            INSERT INTO calls AS c (id, place, thread, caller, tool, state, outcome, seq, fence, claims, owner, waiting_for,
                    priority, created_at, ended_at, bytes)
                VALUES (unit.id, decode(unit.place, 'hex'), unit.thread, unit.caller, unit.tool, unit.state,
                    CASE WHEN unit.ended_at IS NOT NULL THEN unit.state END, unit.last, unit.fence, 1,
                    CASE WHEN unit.owned AND unit.ended_at IS NULL THEN me END, unit.waiting_for, unit.priority,
                    unit.created_at, unit.ended_at, weight)
                ON CONFLICT (id, place) DO NOTHING RETURNING c.key, c.watched INTO its_key, is_watched;
        ELSIF unit.fence = -1 THEN
            UPDATE calls c SET seq = unit.last, bytes = c.bytes + weight, request = c.request OR unit.request,
                    owner = CASE WHEN unit.owned THEN c.owner END
                WHERE c.key = unit.key AND c.seq = unit.expect RETURNING c.key, c.watched INTO its_key, is_watched;
        ELSE
            IF unit.ended_at IS NOT NULL THEN
                SELECT c.ended_at IS NOT NULL INTO had_ended FROM calls c WHERE c.key = unit.key;
            END IF;
            UPDATE calls c SET state = unit.state, seq = unit.last, bytes = c.bytes + weight, request = false,
                    waiting_for = unit.waiting_for, ended_at = unit.ended_at,
                    outcome = CASE WHEN unit.ended_at IS NOT NULL THEN unit.state END,
                    owner = CASE WHEN unit.owned THEN c.owner END
                WHERE c.key = unit.key AND c.seq = unit.expect AND c.fence = unit.fence
                RETURNING c.key, c.watched INTO its_key, is_watched;
        END IF;
        IF its_key IS NULL THEN
            IF again AND unit.size > 0 THEN
                SELECT e.call INTO its_key FROM calls c JOIN events e ON e.call = c.key
                    WHERE CASE WHEN unit.expect = 0 THEN c.id = unit.id AND c.place = decode(unit.place, 'hex')
                            ELSE c.key = unit.key END
                        AND e.seq = unit.expect + 1 AND e.body = its_body;
            END IF;
            outcomes := outcomes || coalesce(its_key, CASE WHEN unit.expect = 0 THEN -1 ELSE 0 END);
            fresh := fresh || false;
            whole := whole AND unit.ended_at IS NULL;
            CONTINUE;
        END IF;
        IF unit.last > unit.expect THEN
            INSERT INTO events (call, seq, body) VALUES (its_key, unit.expect + 1, its_body);
        END IF;
        IF unit.artifacts IS NOT NULL THEN
            PERFORM name_artifacts(me, its_key, unit.artifacts);
        END IF;
        IF is_watched THEN
            followed := followed || its_key;
        END IF;
        outcomes := outcomes || its_key;
        fresh := fresh || (NOT had_ended);
        whole := whole AND NOT had_ended;
    END LOOP;
    IF uses IS NOT NULL THEN
        -- In the order of their keys: two groups that wait for each other's rows would wait for ever.
        FOR use IN SELECT * FROM json_to_recordset(uses) AS u(
            unit integer, key text, hit boolean, "now" float8, size integer, start integer, tags json, created_at float8,
            expires_at float8, accessed_at float8)
        LOOP
            CONTINUE WHEN NOT fresh[use.unit];
            IF use.hit THEN
                hit_count := hit_count + 1;
                UPDATE cache c SET accessed_at = use."now", access_count = c.access_count + 1 WHERE c.key = use.key;
            ELSE
                miss_count := miss_count + 1;
            END IF;
            IF use.tags IS NOT NULL THEN
                INSERT INTO cache AS c VALUES (use.key, substr(bodies, use.start, use.size),
                        ARRAY(SELECT json_array_elements_text(use.tags)), use.size, use.created_at, use.expires_at,
                        use.accessed_at, 0)
                    ON CONFLICT (key) DO UPDATE SET body = excluded.body, tags = excluded.tags, bytes = excluded.bytes,
                        created_at = excluded.created_at, expires_at = excluded.expires_at,
                        accessed_at = excluded.accessed_at, access_count = 0;
            END IF;
        END LOOP;
    END IF;
    IF sums IS NOT NULL THEN
        IF NOT (whole OR alone) THEN
            RAISE EXCEPTION 'not all of these units count' USING ERRCODE = 'CK003';
        END IF;
        PERFORM count_tallies(me, runs, sums, fresh);
    END IF;
    IF hit_count + miss_count > 0 THEN
        INSERT INTO cache_counts AS k (owner, hits, misses) VALUES (me, hit_count, miss_count)
            ON CONFLICT (owner) DO UPDATE SET hits = k.hits + excluded.hits, misses = k.misses + excluded.misses;
    END IF;
END $$;

-- Remove the calls that consist of exactly these units, and what they added.
DROP FUNCTION erase(bigint, bigint, json, bytea);
CREATE FUNCTION erase(
    me bigint, my_epoch bigint, units json, bodies bytea, runs json DEFAULT NULL, sums json DEFAULT NULL
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    unit record;
    its_key bigint;
    start integer := 1;
    erased boolean[] := '{}';
BEGIN
    PERFORM admit(me, my_epoch);
    FOR unit IN SELECT * FROM json_to_recordset(units) AS u(id text, place text, last integer, size integer) LOOP
        SELECT c.key INTO its_key FROM calls c
            WHERE c.id = unit.id AND c.place = decode(unit.place, 'hex') AND c.seq = unit.last
                AND EXISTS (SELECT FROM events e
                    WHERE e.call = c.key AND e.seq = 1 AND e.body = substr(bodies, start, unit.size))
            FOR UPDATE;
        IF FOUND THEN
            DELETE FROM events WHERE call = its_key;
            DELETE FROM artifacts WHERE call = its_key;
            DELETE FROM calls WHERE key = its_key;
        END IF;
        erased := erased || (its_key IS NOT NULL);
        start := start + unit.size;
    END LOOP;
    IF sums IS NOT NULL THEN
        PERFORM uncount_tallies(me, runs, sums, erased);
    END IF;
    RETURN cardinality(array_remove(erased, false));
END $$;

-- As before; figures of owners that leave are kept, too.
CREATE OR REPLACE FUNCTION leave(gone bigint[], signing_off boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    freed boolean;
    idle bigint[];
BEGIN
    DELETE FROM slots WHERE owner = ANY (gone);
    freed := FOUND;
    IF signing_off THEN
        idle := gone;
    ELSE
        idle := ARRAY(SELECT o.id FROM owners o WHERE o.id = ANY (gone)
            AND NOT EXISTS (SELECT FROM calls c WHERE c.owner = o.id AND c.ended_at IS NULL)
            ORDER BY o.id FOR UPDATE SKIP LOCKED);
    END IF;
    DELETE FROM puts WHERE owner = ANY (idle);
    WITH counted AS (DELETE FROM cache_counts k WHERE k.owner = ANY (idle) AND k.owner <> 0 RETURNING *)
    INSERT INTO cache_counts AS k SELECT 0, sum(hits), sum(misses), sum(evictions) FROM counted HAVING count(*) > 0
        ON CONFLICT (owner) DO UPDATE SET hits = k.hits + excluded.hits, misses = k.misses + excluded.misses,
            evictions = k.evictions + excluded.evictions;
    -- Those of an owner that is not dead after all may be locked: they stay with it, and are counted as well.
    WITH kept AS (SELECT owner, label FROM figures WHERE owner = ANY (idle) AND owner <> 0 ORDER BY owner, label
            FOR UPDATE SKIP LOCKED),
        counted AS (DELETE FROM figures f USING kept k WHERE f.owner = k.owner AND f.label = k.label RETURNING f.*)
    INSERT INTO figures AS f
        SELECT 0, c.label, min(c.caller), min(c.tool), min(c.outcome), min(c.error), min(c.bucket), sum(c.count),
            sum(c.seconds), min(c.least), max(c.most)
        FROM counted c GROUP BY c.label ORDER BY c.label
        ON CONFLICT (owner, label) DO UPDATE SET count = f.count + excluded.count, seconds = f.seconds + excluded.seconds,
            least = least(f.least, excluded.least), most = greatest(f.most, excluded.most);
    DELETE FROM owners WHERE id = ANY (idle);
    RETURN freed;
END $$;

CREATE FUNCTION put_standing(
    me bigint, my_epoch bigint, my_ticket bigint, its_place text, its_caller text, its_thread text, wanted bigint, given json
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    g record;
BEGIN
    PERFORM admit(me, my_epoch);
    SELECT * INTO g FROM json_to_record(given) AS j(tool text, completions bigint, failures bigint,
        consecutive_failures bigint, first_success_at float8, last_success_at float8, last_failure_at float8,
        last_error text, status text, reason text, "by" text, announced text, updated_at float8);
    IF EXISTS (SELECT FROM standings s WHERE s.place = decode(its_place, 'hex') AND s.tool = g.tool AND s.ticket = my_ticket)
    THEN
        RETURN true; -- it was written, and only the answer was lost
    END IF;
    IF wanted = 0 THEN
        INSERT INTO standings VALUES (decode(its_place, 'hex'), g.tool, its_caller, its_thread, g.completions, g.failures,
                g.consecutive_failures, g.first_success_at, g.last_success_at, g.last_failure_at, g.last_error, g.status,
                g.reason, g."by", g.announced, g.updated_at, 1, my_ticket)
            ON CONFLICT DO NOTHING;
    ELSE
        UPDATE standings s SET completions = g.completions, failures = g.failures,
                consecutive_failures = g.consecutive_failures, first_success_at = g.first_success_at,
                last_success_at = g.last_success_at, last_failure_at = g.last_failure_at, last_error = g.last_error,
                status = g.status, reason = g.reason, "by" = g."by", announced = g.announced, updated_at = g.updated_at,
                version = wanted + 1, ticket = my_ticket
            WHERE s.place = decode(its_place, 'hex') AND s.tool = g.tool AND s.version = wanted;
    END IF;
    RETURN FOUND;
END $$;

CREATE FUNCTION put_paper(
    me bigint, my_epoch bigint, my_ticket bigint, its_kind text, its_hash text, its_key text, its_body bytea, wanted bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    its_time float8 := extract(epoch FROM clock_timestamp());
BEGIN
    PERFORM admit(me, my_epoch);
    IF EXISTS (SELECT FROM papers p WHERE p.kind = its_kind AND p.hash = decode(its_hash, 'hex') AND p.ticket = my_ticket)
    THEN
        RETURN true;
    END IF;
    IF wanted > 0 THEN
        UPDATE papers p SET body = its_body, version = wanted + 1, updated_at = its_time, ticket = my_ticket
            WHERE p.kind = its_kind AND p.hash = decode(its_hash, 'hex') AND p.version = wanted;
        RETURN FOUND;
    END IF;
    INSERT INTO papers AS p VALUES (its_kind, decode(its_hash, 'hex'), its_key, its_body, 1, its_time, my_ticket)
        ON CONFLICT (kind, hash) DO UPDATE SET body = excluded.body, version = p.version + 1,
            updated_at = excluded.updated_at, ticket = excluded.ticket WHERE wanted IS NULL;
    RETURN FOUND;
END $$;

CREATE FUNCTION delete_paper(me bigint, my_epoch bigint, its_kind text, its_hash text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM admit(me, my_epoch);
    DELETE FROM papers p WHERE p.kind = its_kind AND p.hash = decode(its_hash, 'hex');
    RETURN FOUND;
END $$;

-- Lines of the log. Writers take turns until they have committed: who reads up to a number has all lines below it.
CREATE FUNCTION add_to_audit(me bigint, my_epoch bigint, my_ticket bigint, sizes integer[], bodies bytea) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    size integer;
    start integer := 1;
BEGIN
    PERFORM admit(me, my_epoch);
    PERFORM pg_advisory_xact_lock(hashtextextended('clicket audit ' || current_schema(), 0));
    IF EXISTS (SELECT FROM audit WHERE ticket = my_ticket) THEN
        RETURN;
    END IF;
    FOREACH size IN ARRAY sizes LOOP
        INSERT INTO audit (at, body, ticket)
            VALUES (extract(epoch FROM clock_timestamp()), substr(bodies, start, size), my_ticket);
        start := start + size;
    END LOOP;
END $$;
