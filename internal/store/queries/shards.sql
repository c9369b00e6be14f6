-- name: ShardTouch :exec
UPDATE shards SET changed = changed + 1 WHERE id = @id;

-- name: WatcherAdd :exec
INSERT INTO watchers (id, expires, watermark) VALUES (@id, clock_timestamp() + make_interval(secs => @alive::float8), @watermark);

-- name: WatcherRenew :execrows
UPDATE watchers SET expires = clock_timestamp() + make_interval(secs => @alive::float8), watermark = @watermark
WHERE id = @id;

-- name: WatcherRemove :exec
UPDATE watchers SET expires = '-infinity', watermark = @watermark WHERE id = @id;

-- name: WatchersForget :exec
DELETE FROM watchers WHERE expires < clock_timestamp() - interval '1 day';

-- name: WatchersAlive :one
SELECT count(*) FROM watchers WHERE expires > clock_timestamp();

-- name: ShardsOf :many
SELECT id, epoch, changed FROM shards WHERE holder = @holder ORDER BY id;

-- name: ShardsCount :one
SELECT count(*) AS held, coalesce(sum(epoch + changed), 0)::bigint AS stamp,
       (SELECT count(*) FROM watchers WHERE expires > clock_timestamp()) AS alive
FROM shards WHERE holder = @holder;

-- name: ShardsTake :many
WITH free AS (
    SELECT s.id, coalesce(w.watermark, s.released, 'epoch')::timestamptz AS watermark FROM shards s LEFT JOIN watchers w ON w.id = s.holder
    WHERE s.holder <> @holder AND (w.id IS NULL OR w.expires <= clock_timestamp())
    ORDER BY s.id LIMIT @most FOR UPDATE OF s SKIP LOCKED
)
UPDATE shards SET holder = @holder, epoch = epoch + 1, released = NULL FROM free WHERE shards.id = free.id
RETURNING shards.id, shards.epoch, shards.changed, free.watermark;

-- name: ShardsGive :exec
UPDATE shards SET holder = '', released = @watermark::timestamptz WHERE holder = @holder AND id = ANY (@ids::integer[]);

-- name: ShardsHeld :many
SELECT s.id FROM shards s
JOIN (SELECT unnest(@ids::integer[]) AS id, unnest(@epochs::bigint[]) AS epoch) AS mine ON mine.id = s.id AND mine.epoch = s.epoch
WHERE s.holder = @holder ORDER BY s.id FOR SHARE OF s;
