-- The tables and views of events.duckdb, run once when the file is made; a file made from another text is rebuilt.
-- The tables carry no keys and no indexes, and nothing is altered later: a file that is only ever appended to and
-- thrown away when in doubt needs neither. Times are UTC. Views only select; unknown or missing fields are NULL.
-- The bytes of chunks that ride in an event are left out of its payload here; the journal has them.
-- The arrow stands in parentheses everywhere, because DuckDB 1 and 2 give it another precedence.

CREATE TABLE events (
    event_id       VARCHAR,
    event_type     VARCHAR,
    timestamp      TIMESTAMP,
    workflow_id    VARCHAR,
    run_id         VARCHAR,
    activity_id    VARCHAR,
    attempt        INTEGER,
    kernel_id      VARCHAR,
    epoch          BIGINT,
    seq            BIGINT,
    payload        JSON,
    metadata       JSON,
    correlation    JSON,
    schema_version INTEGER,
    hash           VARCHAR
);

-- One row per batch: up to which event of which workflow, how many rows it brought, made from which text of this file.
CREATE TABLE ingested (
    workflow_id VARCHAR,
    seq         BIGINT,
    event_id    VARCHAR,
    events      BIGINT,
    layout      VARCHAR
);

-- Every event with the one that caused it and the ones that it caused.
CREATE VIEW history AS
SELECT e.*, (e.correlation->>'$.parent_event') AS parent_event, coalesce(t.triggered_events, []) AS triggered_events
FROM events e
LEFT JOIN (
    SELECT workflow_id, (correlation->>'$.parent_event') AS parent_event,
           list(event_id ORDER BY seq) AS triggered_events
    FROM events
    WHERE (correlation->>'$.parent_event') IS NOT NULL
    GROUP BY ALL
) t ON t.workflow_id = e.workflow_id AND t.parent_event = e.event_id;

-- One row per start of a cell. Its end is the next event of that activity that ends one; a lost attempt has no
-- duration, because its end was only noticed later; a start that was recorded late is put back by what the cell took.
CREATE VIEW attempts AS
WITH bounds AS (
    SELECT *,
        lead(event_type)             OVER w AS end_type,
        lead(event_id)               OVER w AS end_id,
        lead(timestamp)              OVER w AS end_at,
        lead(payload)                OVER w AS end_payload,
        lead(metadata)               OVER w AS end_metadata
    FROM events
    WHERE event_type IN ('ActivityStarted', 'ActivityCompleted', 'ActivityFailed', 'ActivityCanceled',
                         'ActivityTimedOut', 'ActivityLost')
    WINDOW w AS (PARTITION BY workflow_id, activity_id ORDER BY seq)
), started AS (
    SELECT * REPLACE (
        CASE WHEN end_type = 'ActivityStarted' THEN NULL ELSE end_type END AS end_type,
        CASE WHEN end_type = 'ActivityStarted' THEN NULL ELSE end_id END AS end_id,
        CASE WHEN end_type = 'ActivityStarted' THEN NULL ELSE end_at END AS end_at,
        CASE WHEN end_type = 'ActivityStarted' THEN NULL ELSE end_payload END AS end_payload,
        CASE WHEN end_type = 'ActivityStarted' THEN NULL ELSE end_metadata END AS end_metadata)
    FROM bounds
    WHERE event_type = 'ActivityStarted'
)
SELECT
    workflow_id, run_id, kernel_id, activity_id,
    nullif((payload->>'$.name'), '') AS name,
    attempt,
    CASE end_type
        WHEN 'ActivityCompleted' THEN 'completed'
        WHEN 'ActivityFailed'    THEN 'failed'
        WHEN 'ActivityCanceled'  THEN 'canceled'
        WHEN 'ActivityTimedOut'  THEN 'timed_out'
        WHEN 'ActivityLost'      THEN 'lost'
        ELSE 'running'
    END AS status,
    CASE WHEN (payload->>'$.late') = 'true' AND end_at IS NOT NULL THEN
        end_at - to_microseconds(
            CAST(1e3 * coalesce(TRY_CAST((end_metadata->>'$.execution_time_ms') AS DOUBLE), 0) AS BIGINT))
        ELSE timestamp
    END AS started,
    end_at AS ended,
    CASE WHEN end_type IS NULL OR end_type = 'ActivityLost' THEN NULL ELSE round(
        coalesce(TRY_CAST((end_metadata->>'$.execution_time_ms') AS DOUBLE),
                 date_diff('microsecond', timestamp, end_at) / 1e3) / 1e3, 6)
    END AS duration_s,
    round(TRY_CAST((end_metadata->>'$.commit_time_ms') AS DOUBLE) / 1e3, 6) AS commit_s,
    coalesce((end_payload->>'$.error_type'), (end_payload->>'$.cause'), (end_payload->>'$.reason')) AS error_type,
    (end_payload->>'$.error_message') AS error_message,
    (end_payload->>'$.checkpoint.id') AS checkpoint_id,
    TRY_CAST((end_payload->>'$.stored_bytes') AS BIGINT) AS stored_bytes,
    TRY_CAST((payload->>'$.execution_count') AS BIGINT) AS execution_count,
    (payload->>'$.cell_id') AS cell_id,
    coalesce((payload->>'$.code_hash'), (metadata->>'$.code_hash')) AS code_hash,
    (payload->>'$.source') AS source,
    (payload->>'$.recompute.of_event') IS NOT NULL AS recompute,
    event_id AS started_event,
    end_id AS ended_event,
    seq
FROM started;

-- One row per activity and run: how it stands now and what it took.
CREATE VIEW activities AS
WITH reused AS (
    SELECT workflow_id, run_id, activity_id, count(*) AS reuses, max(timestamp) AS last_reused, max(seq) AS seq,
           arg_max(nullif((payload->>'$.name'), ''), seq) AS name,
           arg_max((payload->>'$.checkpoint_id'), seq) AS checkpoint_id
    FROM events
    WHERE event_type = 'ActivityReused'
    GROUP BY ALL
), tried AS (
    SELECT workflow_id, run_id, activity_id,
           -- A try that only made again what could not be stored says nothing of how the cell stands.
           arg_max(name, seq) AS name, arg_max(status, seq) FILTER (NOT recompute) AS status, count(*) AS attempts,
           count(*) FILTER (status = 'failed') AS failures, count(*) FILTER (status = 'lost') AS losses,
           min(started) AS first_started, max(ended) AS last_ended, round(sum(duration_s), 6) AS duration_s,
           arg_max(checkpoint_id, seq) FILTER (NOT recompute) AS checkpoint_id, arg_max(source, seq) AS source,
           max(seq) FILTER (NOT recompute) AS seq
    FROM attempts
    GROUP BY ALL
)
SELECT
    coalesce(t.workflow_id, r.workflow_id) AS workflow_id,
    coalesce(t.run_id, r.run_id) AS run_id,
    coalesce(t.activity_id, r.activity_id) AS activity_id,
    coalesce(t.name, r.name) AS name,
    CASE WHEN r.seq > coalesce(t.seq, 0) THEN 'completed' ELSE t.status END AS status,
    coalesce(t.attempts, 0) AS attempts,
    coalesce(t.failures, 0) AS failures,
    coalesce(t.losses, 0) AS losses,
    coalesce(r.reuses, 0) AS reuses,
    t.first_started, t.last_ended, r.last_reused, t.duration_s,
    CASE WHEN r.seq > coalesce(t.seq, 0) THEN coalesce(r.checkpoint_id, t.checkpoint_id) ELSE t.checkpoint_id END
        AS checkpoint_id,
    t.source
FROM tried t
FULL JOIN reused r ON r.workflow_id = t.workflow_id AND r.run_id = t.run_id
    AND r.activity_id IS NOT DISTINCT FROM t.activity_id;

-- One row per pass through the notebook. The status is that of the run if it has an end, else of its last kernel.
CREATE VIEW runs AS
SELECT
    workflow_id, run_id,
    CASE coalesce(
        arg_max(event_type, seq) FILTER (event_type IN ('RunCompleted', 'RunFailed', 'RunCanceled', 'RunTerminated',
            'RunPaused', 'RunResumed', 'KernelAttached', 'KernelDetached', 'KernelLost', 'RunRecovered',
            'RunStarted')), '')
        WHEN 'RunCompleted'   THEN 'completed'
        WHEN 'RunFailed'      THEN 'failed'
        WHEN 'RunCanceled'    THEN 'canceled'
        WHEN 'RunTerminated'  THEN 'terminated'
        WHEN 'RunPaused'      THEN 'paused'
        WHEN 'KernelDetached' THEN 'detached'
        WHEN 'KernelLost'     THEN 'lost'
        ELSE 'running'
    END AS status,
    min(timestamp) AS started,
    max(timestamp) AS last_event,
    date_diff('microsecond', min(timestamp), max(timestamp)) / 1e6 AS duration_s,
    any_value((payload->>'$.reason')) FILTER (event_type = 'RunStarted') AS reason,
    count(DISTINCT kernel_id) AS kernels,
    count(*) FILTER (event_type = 'KernelLost') AS kernels_lost,
    count(*) FILTER (event_type = 'RunRecovered') AS recoveries,
    count(DISTINCT activity_id) AS activities,
    count(*) FILTER (event_type = 'ActivityCompleted') AS completed,
    count(*) FILTER (event_type = 'ActivityFailed') AS failed,
    count(*) FILTER (event_type = 'ActivityLost') AS lost,
    count(*) FILTER (event_type = 'ActivityReused') AS reused,
    count(*) AS events
FROM events
GROUP BY workflow_id, run_id;

-- One row per commit; `live` ones are the head and its ancestors: what the notebook stands on now. Whatever moves the
-- head elsewhere (a restore, a fresh run, a commit on another one than the last) takes what lies between out of it.
CREATE VIEW checkpoints AS
WITH RECURSIVE commits AS (
    SELECT workflow_id, run_id, activity_id, attempt, timestamp, seq, event_id, event_type, payload, metadata,
           (payload->>'$.checkpoint.id') AS checkpoint_id,
           (payload->>'$.checkpoint.parent') AS parent
    FROM events
    WHERE event_type IN ('ActivityCompleted', 'CheckpointCompleted') AND (payload->>'$.checkpoint.id') IS NOT NULL
), moves AS (
    SELECT *, lag(head) OVER (PARTITION BY workflow_id ORDER BY seq) AS previous
    FROM (
        SELECT workflow_id, seq, checkpoint_id AS head, parent AS base FROM commits
        UNION ALL
        SELECT workflow_id, seq, (payload->>'$.checkpoint_id'), (payload->>'$.checkpoint_id')
        FROM events
        WHERE event_type = 'CheckpointRestored' AND coalesce((payload->>'$.whole'), 'true') = 'true'
        UNION ALL
        SELECT workflow_id, seq, NULL, NULL FROM events WHERE event_type = 'RunStarted'
    )
), jumps AS (
    SELECT m.workflow_id, m.seq AS at, coalesce(max(c.seq), 0) AS back_to
    FROM moves m
    LEFT JOIN commits c ON c.workflow_id = m.workflow_id AND c.checkpoint_id = m.base AND c.seq < m.seq
    WHERE m.base IS DISTINCT FROM m.previous
    GROUP BY m.workflow_id, m.seq
), line AS (
    SELECT m.workflow_id, coalesce(max(j.at), 0) AS first, max(m.seq) AS last
    FROM (SELECT workflow_id, max(seq) AS seq FROM moves GROUP BY ALL) m
    LEFT JOIN jumps j ON j.workflow_id = m.workflow_id
    GROUP BY m.workflow_id
    UNION ALL
    SELECT l.workflow_id, coalesce(max(k.at), 0) AS first, j.back_to AS last
    FROM line l
    JOIN jumps j ON j.workflow_id = l.workflow_id AND j.at = l.first
    LEFT JOIN jumps k ON k.workflow_id = l.workflow_id AND k.at <= j.back_to
    WHERE j.back_to > 0
    GROUP BY l.workflow_id, j.back_to
), fate AS (
    SELECT workflow_id, (payload->>'$.checkpoint_id') AS checkpoint_id,
           count(*) FILTER (event_type = 'CheckpointRestored') AS restores,
           bool_or(event_type = 'CheckpointDeleted') AS deleted,
           bool_or(event_type = 'CheckpointCorrupted') AS corrupted
    FROM events
    WHERE event_type IN ('CheckpointRestored', 'CheckpointDeleted', 'CheckpointCorrupted')
    GROUP BY ALL
), names AS (
    SELECT workflow_id, run_id, activity_id, arg_max(nullif((payload->>'$.name'), ''), seq) AS name
    FROM events
    WHERE event_type = 'ActivityStarted'
    GROUP BY ALL
)
SELECT
    c.workflow_id, c.run_id, c.checkpoint_id, c.parent, c.timestamp AS created,
    CASE WHEN c.event_type = 'ActivityCompleted' THEN 'activity'
        ELSE coalesce((c.payload->>'$.reason'), 'checkpoint') END AS reason,
    c.activity_id, c.attempt, coalesce(nullif((c.payload->>'$.name'), ''), n.name) AS name,
    TRY_CAST((c.payload->>'$.stored_bytes') AS BIGINT) AS stored_bytes,
    coalesce(json_array_length(c.payload, '$.changed'), 0) AS changed,
    coalesce(json_array_length(c.payload, '$.deleted'), 0) AS deleted,
    coalesce(json_array_length(c.payload, '$.unsaved'), 0) AS unsaved,
    round(TRY_CAST((c.metadata->>'$.commit_time_ms') AS DOUBLE) / 1e3, 6) AS commit_s,
    EXISTS (SELECT 1 FROM line l WHERE l.workflow_id = c.workflow_id AND c.seq BETWEEN l.first AND l.last) AS live,
    coalesce(f.restores, 0) AS restores,
    coalesce(f.deleted, false) AS removed,
    coalesce(f.corrupted, false) AS corrupted,
    c.event_id, c.seq
FROM commits c
LEFT JOIN fate f ON f.workflow_id = c.workflow_id AND f.checkpoint_id = c.checkpoint_id
LEFT JOIN names n ON n.workflow_id = c.workflow_id AND n.run_id = c.run_id AND n.activity_id = c.activity_id;

-- One row per name and version that a checkpoint holds; `current` ones are what the notebook's names are now.
CREATE VIEW variables AS
WITH touched AS (
    SELECT c.workflow_id, c.run_id, c.seq, c.created, c.checkpoint_id, c.live, c.activity_id,
           coalesce(c.name, c.activity_id, c.reason) AS made_by,
           unnest(json_extract(e.payload, '$.changed[*]')) AS item
    FROM checkpoints c JOIN events e ON e.workflow_id = c.workflow_id AND e.seq = c.seq
), gone AS (
    SELECT c.workflow_id, c.seq, unnest(json_extract_string(e.payload, '$.deleted[*]')) AS name
    FROM checkpoints c JOIN events e ON e.workflow_id = c.workflow_id AND e.seq = c.seq
    WHERE c.live
), last AS (
    SELECT workflow_id, name, max(seq) AS seq
    FROM (SELECT workflow_id, (item->>'$.name') AS name, seq FROM touched WHERE live UNION ALL
          SELECT workflow_id, name, seq FROM gone)
    GROUP BY ALL
)
SELECT
    t.workflow_id, (t.item->>'$.name') AS name,
    coalesce((t.item->>'$.version'), t.checkpoint_id) AS version,
    (t.item->>'$.type') AS type,
    TRY_CAST((t.item->>'$.size_bytes') AS BIGINT) AS size_bytes,
    t.made_by, t.activity_id, t.run_id, t.created AS made,
    t.live AND l.seq IS NOT NULL AS current,
    t.seq
FROM touched t
LEFT JOIN last l ON l.workflow_id = t.workflow_id AND l.name = (t.item->>'$.name') AND l.seq = t.seq;

-- What ran inside activities as steps; no rows until a workflow uses them.
CREATE VIEW steps AS
SELECT
    workflow_id, run_id, activity_id, attempt,
    nullif((payload->>'$.name'), '') AS name,
    TRY_CAST((payload->>'$.occurrence') AS BIGINT) AS occurrence,
    CASE event_type WHEN 'StepStarted' THEN 'started' WHEN 'StepCompleted' THEN 'completed'
        WHEN 'StepFailed' THEN 'failed' ELSE 'reused' END AS status,
    timestamp,
    round(TRY_CAST((metadata->>'$.execution_time_ms') AS DOUBLE) / 1e3, 6) AS duration_s,
    (payload->>'$.error_type') AS error_type, (payload->>'$.error_message') AS error_message,
    event_id, seq
FROM events
WHERE event_type IN ('StepStarted', 'StepCompleted', 'StepFailed', 'StepReused');

-- What cells and checkpoints used: processor time, memory at the end, bytes stored.
CREATE VIEW resources AS
SELECT
    workflow_id, run_id, kernel_id, activity_id, attempt, event_type, timestamp,
    round(TRY_CAST((metadata->>'$.execution_time_ms') AS DOUBLE) / 1e3, 6) AS execution_s,
    round(TRY_CAST((metadata->>'$.commit_time_ms') AS DOUBLE) / 1e3, 6) AS commit_s,
    round(TRY_CAST((metadata->>'$.resource_usage.cpu_ms') AS DOUBLE) / 1e3, 6) AS cpu_s,
    TRY_CAST((metadata->>'$.resource_usage.rss_bytes') AS BIGINT) AS rss_bytes,
    TRY_CAST((payload->>'$.stored_bytes') AS BIGINT) AS stored_bytes,
    event_id, seq
FROM events
WHERE json_exists(metadata, '$.resource_usage') OR json_exists(metadata, '$.execution_time_ms');

-- One row per recorded output of a cell, in order; outputs too large to ride in the event are one row that only tells
-- their size.
CREATE VIEW outputs AS
WITH recorded AS (
    SELECT *, TRY_CAST((payload->>'$.attachments.outputs.text') AS JSON) AS list
    FROM events
    WHERE (payload->'$.attachments.outputs') IS NOT NULL
), items AS (
    SELECT * EXCLUDE (list), unnest(json_extract(list, '$[*]')) AS item,
           generate_subscripts(json_extract(list, '$[*]'), 1) AS n, NULL AS size_bytes
    FROM recorded
    WHERE list IS NOT NULL
    UNION ALL
    SELECT * EXCLUDE (list), NULL AS item, NULL AS n,
           TRY_CAST((payload->>'$.attachments.outputs.buffer.size_bytes') AS BIGINT) AS size_bytes
    FROM recorded
    WHERE list IS NULL
)
SELECT
    workflow_id, run_id, activity_id, attempt, timestamp,
    nullif((payload->>'$.name'), '') AS name,
    (payload->>'$.checkpoint.id') AS checkpoint_id,
    n,
    (item->>'$.kind') AS kind,
    coalesce((item->>'$.content.text'), (item->>'$.content.data."text/plain"'), (item->>'$.content.evalue')) AS text,
    json_keys(item, '$.content.data') AS mime_types,
    coalesce(size_bytes, octet_length(encode(CAST(item AS VARCHAR)))) AS size_bytes,
    event_id, seq
FROM items;

-- Everything that went wrong, whatever it was: what a business event ErrorOccurred would say.
CREATE VIEW errors AS
SELECT
    timestamp, workflow_id, run_id, activity_id, attempt, event_type,
    -- Of a loss there is no type, only a cause, which is the message.
    coalesce((payload->>'$.error_type'), (payload->>'$.timeout_type'), event_type) AS error_type,
    coalesce((payload->>'$.error_message'), (payload->>'$.error'), (payload->>'$.reason'), (payload->>'$.cause'))
        AS message,
    (payload->>'$.traceback') AS traceback,
    kernel_id, event_id, seq
FROM events
WHERE event_type IN ('ActivityFailed', 'ActivityTimedOut', 'ActivityLost', 'KernelLost', 'RunFailed', 'StepFailed',
    'MapItemFailed', 'CompensationFailed', 'CheckpointFailed', 'CheckpointCorrupted', 'StorageDegraded',
    'IncidentRaised');
