-- Waiting calls are claimed from callers in turn: first one call of each caller, beginning after `last_caller` in the order of names,
-- then the second of each. Within a caller the highest priority comes first, then the oldest. Of each tool the first `looked_at`
-- calls by its index are looked at; more than wanted are chosen, as others may be taking some of them now.
CREATE FUNCTION claim_in_turn(
    me bigint, my_epoch bigint, my_ticket bigint, unheard bigint[], tools text[], last_caller text, looked_at integer,
    most integer, OUT keys bigint[], OUT freed boolean
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM admit(me, my_epoch);
    freed := false;
    IF cardinality(unheard) > 0 THEN
        keys := ARRAY(SELECT c.key FROM calls c WHERE c.owner = me AND c.ended_at IS NULL AND c.ticket = ANY (unheard)
            ORDER BY c.priority DESC, c.key);
        IF cardinality(keys) > 0 THEN
            RETURN;
        END IF;
    END IF;
    keys := ARRAY(
        SELECT ranked.key FROM (
            SELECT first.key, first.caller, row_number() OVER (PARTITION BY first.caller ORDER BY first.priority DESC, first.key)
                AS turn
            FROM unnest(tools) AS t(tool) CROSS JOIN LATERAL (
                SELECT c.key, c.priority, c.caller FROM calls c
                WHERE c.tool = t.tool AND c.ended_at IS NULL AND c.owner IS NULL
                ORDER BY c.priority DESC, c.key LIMIT looked_at) first) ranked
        ORDER BY ranked.turn, ranked.caller <= last_caller COLLATE "C", ranked.caller LIMIT most * 4 + 16);
    keys := ARRAY(SELECT c.key FROM unnest(keys) WITH ORDINALITY AS u(key, place) JOIN calls c ON c.key = u.key
        WHERE c.ended_at IS NULL AND c.owner IS NULL ORDER BY u.place LIMIT most FOR UPDATE OF c SKIP LOCKED);
    PERFORM take(me, my_ticket, keys);
END $$;
