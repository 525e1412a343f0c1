-- Tool health, figures, documents and the audit log.

-- What units that ended their calls add: `runs` to tool_health, `sums` to figures. Failures of another version of the tool than the
-- stored one start at zero.
CREATE FUNCTION count_tallies(me bigint, runs json, sums json, fresh boolean[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF runs IS NOT NULL THEN
        INSERT INTO tool_health AS s (place, tool, caller, thread, completions, failures, consecutive_failures,
                first_success_at, last_success_at, last_failure_at, last_error, updated_at, version, mended, tool_version)
            SELECT decode(r.place, 'hex'), r.tool, r.caller, r.thread, r.completions, r.failures, r.streak,
                r.first_success_at, r.last_success_at, r.last_failure_at, r.last_error, r.updated_at, r.writes, r.mended,
                r.tool_version
            FROM json_to_recordset(runs) AS r(unit integer, place text, tool text, caller text, thread text,
                completions bigint, failures bigint, streak bigint, first_success_at float8, last_success_at float8,
                last_failure_at float8, last_error text, updated_at float8, writes bigint, mended boolean,
                tool_version text)
            WHERE fresh[r.unit]
            ON CONFLICT (place, tool) DO UPDATE SET completions = s.completions + excluded.completions,
                failures = s.failures + excluded.failures,
                consecutive_failures = CASE WHEN excluded.mended
                    OR (excluded.failures > 0 AND excluded.tool_version <> s.tool_version) THEN 0 ELSE s.consecutive_failures END
                    + excluded.consecutive_failures,
                first_success_at = coalesce(s.first_success_at, excluded.first_success_at),
                last_success_at = coalesce(excluded.last_success_at, s.last_success_at),
                last_failure_at = coalesce(excluded.last_failure_at, s.last_failure_at),
                last_error = CASE WHEN excluded.failures > 0 THEN excluded.last_error ELSE s.last_error END,
                tool_version = CASE WHEN excluded.failures > 0 THEN excluded.tool_version ELSE s.tool_version END,
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

-- The reverse, for calls that were erased because their acknowledgement was lost. Times that the call set stay.
CREATE FUNCTION uncount_tallies(me bigint, runs json, sums json, erased boolean[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    run record;
BEGIN
    FOR run IN SELECT * FROM json_to_recordset(runs) AS r(unit integer, place text, tool text, completions bigint,
        failures bigint)
    LOOP
        CONTINUE WHEN NOT erased[run.unit];
        DELETE FROM tool_health s WHERE s.place = decode(run.place, 'hex') AND s.tool = run.tool AND s.version = 1;
        CONTINUE WHEN FOUND; -- nothing else had ever touched it
        UPDATE tool_health s SET completions = greatest(s.completions - run.completions, 0),
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

CREATE FUNCTION put_tool_health(
    me bigint, my_epoch bigint, my_ticket bigint, its_place text, its_caller text, its_thread text, wanted bigint, given json
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    g record;
BEGIN
    PERFORM admit(me, my_epoch);
    SELECT * INTO g FROM json_to_record(given) AS j(tool text, completions bigint, failures bigint,
        consecutive_failures bigint, first_success_at float8, last_success_at float8, last_failure_at float8,
        last_error text, status text, reason text, "by" text, announced text, updated_at float8,
        tool_version text);
    IF EXISTS (SELECT FROM tool_health s WHERE s.place = decode(its_place, 'hex') AND s.tool = g.tool AND s.ticket = my_ticket)
    THEN
        RETURN true; -- it was written, and only the answer was lost
    END IF;
    IF wanted = 0 THEN
        INSERT INTO tool_health (place, tool, caller, thread, completions, failures, consecutive_failures, first_success_at,
                last_success_at, last_failure_at, last_error, status, reason, "by", announced, updated_at, version, ticket,
                tool_version)
            VALUES (decode(its_place, 'hex'), g.tool, its_caller, its_thread, g.completions, g.failures,
                g.consecutive_failures, g.first_success_at, g.last_success_at, g.last_failure_at, g.last_error, g.status,
                g.reason, g."by", g.announced, g.updated_at, 1, my_ticket, g.tool_version)
            ON CONFLICT DO NOTHING;
    ELSE
        UPDATE tool_health s SET completions = g.completions, failures = g.failures,
                consecutive_failures = g.consecutive_failures, first_success_at = g.first_success_at,
                last_success_at = g.last_success_at, last_failure_at = g.last_failure_at, last_error = g.last_error,
                status = g.status, reason = g.reason, "by" = g."by", announced = g.announced, updated_at = g.updated_at,
                version = wanted + 1, ticket = my_ticket, tool_version = g.tool_version
            WHERE s.place = decode(its_place, 'hex') AND s.tool = g.tool AND s.version = wanted;
    END IF;
    RETURN FOUND;
END $$;

CREATE FUNCTION put_document(
    me bigint, my_epoch bigint, my_ticket bigint, its_kind text, its_hash text, its_key text, its_body bytea, wanted bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    its_time float8 := extract(epoch FROM clock_timestamp());
BEGIN
    PERFORM admit(me, my_epoch);
    IF EXISTS (SELECT FROM documents p WHERE p.kind = its_kind AND p.hash = decode(its_hash, 'hex') AND p.ticket = my_ticket)
    THEN
        RETURN true;
    END IF;
    IF wanted > 0 THEN
        UPDATE documents p SET body = its_body, version = wanted + 1, updated_at = its_time, ticket = my_ticket
            WHERE p.kind = its_kind AND p.hash = decode(its_hash, 'hex') AND p.version = wanted;
        RETURN FOUND;
    END IF;
    INSERT INTO documents AS p VALUES (its_kind, decode(its_hash, 'hex'), its_key, its_body, 1, its_time, my_ticket)
        ON CONFLICT (kind, hash) DO UPDATE SET body = excluded.body, version = p.version + 1,
            updated_at = excluded.updated_at, ticket = excluded.ticket WHERE wanted IS NULL;
    RETURN FOUND;
END $$;

-- Write documents, each over the version that is wanted, or none of them.
CREATE FUNCTION put_documents(
    me bigint, my_epoch bigint, my_ticket bigint, kinds text[], hashes text[], keys text[], sizes integer[], bodies bytea, wanted bigint[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    start integer := 1;
BEGIN
    PERFORM admit(me, my_epoch);
    IF EXISTS (
        SELECT FROM documents p JOIN unnest(kinds, hashes) AS g(kind, hash) ON p.kind = g.kind AND p.hash = decode(g.hash, 'hex')
        WHERE p.ticket = my_ticket
    ) THEN
        RETURN true;
    END IF;
    FOR n IN 1 .. cardinality(kinds) LOOP
        IF NOT put_document(me, my_epoch, my_ticket, kinds[n], hashes[n], keys[n], substr(bodies, start, sizes[n]), wanted[n]) THEN
            RAISE SQLSTATE 'CK004'; -- what was written before is undone
        END IF;
        start := start + sizes[n];
    END LOOP;
    RETURN true;
EXCEPTION
    WHEN SQLSTATE 'CK004' THEN
        RETURN false;
END $$;

CREATE FUNCTION delete_document(me bigint, my_epoch bigint, its_kind text, its_hash text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM admit(me, my_epoch);
    DELETE FROM documents p WHERE p.kind = its_kind AND p.hash = decode(its_hash, 'hex');
    RETURN FOUND;
END $$;

-- Add lines to the log. Writers take turns until they have committed, so a reader of a number has seen all lines below it.
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
