// ruled_on @fragment
// whether the owner ruled on what was read in turn e
EXISTS {
  MATCH (e)<-[:SUPPORTED_BY]-(f:@Fact)
  WHERE f.pinned OR f.upheld_until IS NOT NULL OR f.owner_retracted_at IS NOT NULL
}

// outdated_turns
// a row for each turn that another extractor has read last, or that none could read, of one session or all, in order: what
// was added directly, has expired, was reviewed or ruled on is not read again
MATCH (i:@Ingest {scope: $scope, state: 'done'})
WHERE i.reading IS NOT NULL AND i.is_ruling IS NULL AND i.reviewed IS NULL
  AND ($session_id IS NULL OR i.session_id = $session_id)
  AND i.session_id <> ':statements:' AND NOT i.session_id STARTS WITH ':promoted:'
MATCH (i)-[reads:READS]->(e:@Event)
WHERE ($extractor IS NULL OR i.extractor <> $extractor OR reads.unread IS NOT NULL)
  AND e.ingest = i.id AND e.memory_id IS NOT NULL AND ($since IS NULL OR e.timestamp >= $since) AND NOT
// include ruled_on
WITH i, e, e AS memory
WHERE
// include memory_stands
RETURN e.memory_id AS memory_id, i.session_id AS session_id, i.topics AS topics, size(e.text) AS characters,
       CASE WHEN $session_id IS NULL THEN null ELSE e {.id, .author, .role, .origin, .text, .own_text, .shown, .timestamp, .offset, .seq, .ingest} END AS turn
ORDER BY session_id, e.seq

// contexts
// a row for each window: the turns before its first one
UNWIND $windows AS window
MATCH (first:@Event {scope: $scope, memory_id: window.first})
// include turns_before
RETURN window.ingest AS ingest, turns

// turns_as_read
// one row: how many of the turns no other request has taken, and the owner has not ruled on, since; nobody writes to the user
// until this transaction ends
MATCH (u:@User {scope: $scope})
SET u.lock = 0
WITH u
UNWIND $turns AS turn
MATCH (e:@Event {scope: $scope, memory_id: turn.memory_id})
WHERE e.ingest = turn.ingest AND NOT
// include ruled_on
RETURN count(e) AS turns

// write_rereading
// nothing; a request that read turns again, and until when the former ones counted
CREATE (i:@Ingest {scope: $scope, id: $id})
SET i.session_id = $session_id, i.requested_at = $at, i.attempts = 1, i.state = 'done', i.done_at = $at, i.written = $writes,
  i.report = $report, i.extractor = $extractor, i.model = $model, i.topics = $topics, i.reading = $reading, i.held = $held
WITH i
UNWIND $turns AS turn
MATCH (e:@Event {scope: $scope, memory_id: turn.memory_id})
OPTIONAL MATCH (:@Ingest {scope: $scope, id: turn.ingest})-[former:READS]->(e)
SET former.reread_at = $at, former.manner = e.manner, former.writer = e.writer
SET e.ingest = i.id, e.extracted = turn.extracted, e.manner = turn.manner, e.writer = turn.writer
FOREACH (_ IN CASE WHEN turn.shown IS NULL OR turn.text = e.text THEN [] ELSE [1] END |
  SET e.unembedded = CASE WHEN e.embedding_a IS NULL AND e.embedding_b IS NULL THEN e.unembedded ELSE true END
  SET e.text = turn.text, e.own_text = turn.own_text, e.shown = turn.shown, e.words = turn.words,
    e.embedding_a = null, e.embedding_b = null, e.tokens_a = null, e.tokens_b = null)
MERGE (i)-[:READS]->(e)

// restore_former_readings
// nothing; what these requests had read again counts as it was read before, until it was read again after them
UNWIND $rows AS id
MATCH (i:@Ingest {scope: $scope, id: id})-[undone:READS]->(e:@Event)
MATCH (former_ingest:@Ingest)-[former:READS]->(e) WHERE former.reread_at = i.done_at
SET former.reread_at = undone.reread_at
FOREACH (_ IN CASE WHEN undone.reread_at IS NULL THEN [1] ELSE [] END |
  SET e.ingest = former_ingest.id, e.manner = former.manner, e.writer = former.writer, former.manner = null, former.writer = null)
