// unread_turns
// a row for each given turn that memory has not read as it is: what is known of it, and whether another worker reads it
// include ensure_user
SET u.lock = 0, u.offset = $offset
WITH u
OPTIONAL MATCH (s:@Session {scope: $scope, id: $session_id})
CALL () {
  OPTIONAL MATCH (last:@Event {scope: $scope, session_uid: $foreign_uid}) WHERE last.seq > 0
  RETURN last.seq AS last_seq ORDER BY last_seq DESC LIMIT 1
}
UNWIND $turns AS turn
OPTIONAL MATCH (remembered:@Event {scope: $scope, memory_id: turn.memory_id})
OPTIONAL MATCH (stored:@Event {scope: $scope, session_uid: s.uid, id: turn.id})
WITH s, last_seq, turn, coalesce(remembered, stored) AS event,
  EXISTS { MATCH (grave:@Tombstone {scope: $scope, key: turn.tombstone}) } AS is_forgotten
OPTIONAL MATCH (i:@Ingest {scope: $scope, id: event.ingest}) WHERE i.state = 'claimed' AND i.lease_until > $now AND i.lease <> $lease
WITH s, last_seq, turn, event, i, is_forgotten
WHERE NOT is_forgotten AND NOT coalesce(event.extracted ENDS WITH turn.text_key, false)
OPTIONAL MATCH (m:@Meta {key: 'schema'})
RETURN turn.id AS id, s.uid AS uid, coalesce(last_seq, 0) AS last_seq, event.seq AS seq,
       event.extracted IS NOT NULL AS is_edited, event.shown AS shown, i IS NOT NULL AS is_busy, m.live AS live

// edited_turns
// ids of the given turns that memory holds with other texts, authors or roles
UNWIND $turns AS turn
MATCH (event:@Event {scope: $scope, memory_id: turn.memory_id})
WHERE event.text <> turn.text OR event.author <> turn.author OR event.role <> turn.role
RETURN turn.id AS id

// event_body
// one row, or none: the JSON of a turn's event, if its session is in this graph
MATCH (e:@Event {scope: $scope, memory_id: $memory_id}) WHERE e.body IS NOT NULL
RETURN e.body AS body

// store_turn @fragment
// a turn that the request i is to read
  OPTIONAL MATCH (remembered:@Event {scope: $scope, memory_id: turn.memory_id})
  OPTIONAL MATCH (stored:@Event {scope: $scope, session_uid: $uid, id: turn.id})
  WITH i, turn, coalesce(remembered, stored) AS event
  OPTIONAL MATCH (:@Ingest)-[former:READS]->(event) WHERE former.reread_at IS NOT NULL
  WITH i, turn, event, collect(former) AS formers
  FOREACH (_ IN CASE WHEN event IS NULL THEN [1] ELSE [] END |
    CREATE (new:@Event {scope: $scope, session_uid: $foreign_uid, session_id: $session_id, id: turn.id, seq: turn.seq,
      author: turn.author, timestamp: turn.timestamp, offset: turn.offset, role: turn.role, origin: turn.origin, text: turn.text, own_text: turn.own_text,
      shown: turn.shown, memory_id: turn.memory_id, ingest: i.id})
    CREATE (i)-[:READS]->(new))
  FOREACH (former IN formers | SET former.reread_at = null)
  FOREACH (known IN CASE WHEN event IS NULL THEN [] ELSE [event] END |
    SET known.text = turn.text, known.own_text = turn.own_text, known.shown = turn.shown, known.role = turn.role,
      known.origin = turn.origin, known.offset = turn.offset, known.memory_id = turn.memory_id, known.ingest = i.id
    MERGE (i)-[reads:READS]->(known)
    SET reads.unread = null)

// store_turns
// nothing; turns of requests that are claimed next, if they are too many for one statement
UNWIND $rows AS row
MERGE (i:@Ingest {scope: $scope, id: row.ingest})
ON CREATE SET i.session_id = $session_id, i.requested_at = datetime(), i.attempts = 0
WITH i, row AS turn
// include store_turn

// claim_turns
// one row: the turns before those of each window; the user's entities, those of most facts first; the memories that still lack
// their vector. Each window is this worker's for its lease, unless it is to wait for whoever reads: then nothing is told that
// only a reading needs
CALL () {
  UNWIND $windows AS window
  MERGE (i:@Ingest {scope: $scope, id: window.ingest})
  ON CREATE SET i.session_id = $session_id, i.requested_at = datetime(), i.attempts = 0
  SET i.state = CASE WHEN $pending_reason IS NULL THEN 'claimed' ELSE 'pending' END, i.lease = $lease, i.topics = $topics, i.model = $model,
    i.lease_until = CASE WHEN $pending_reason IS NULL THEN $lease_until ELSE 0.0 END, i.reason = coalesce($pending_reason, i.reason),
    i.attempts = i.attempts + CASE WHEN $pending_reason IS NULL THEN 1 ELSE 0 END
  WITH i, window
  UNWIND window.turns AS turn
// include store_turn
}
CALL () {
  MATCH (later:@Event {scope: $scope, session_uid: $foreign_uid}) WHERE later.seq > $last_seq
  MATCH (earlier:@Event {scope: $scope, session_uid: $foreign_uid, seq: later.seq - 1})
  MERGE (earlier)-[:NEXT]->(later)
}
CALL () {
  MATCH (old:@Ingest {scope: $scope}) WHERE old.state IN ['pending', 'claimed']
    AND (old.state = 'pending' OR old.lease_until <= $now) AND NOT EXISTS { MATCH (old)-[:READS]->(e:@Event) WHERE e.ingest = old.id }
  SET old.state = 'superseded'
}
CALL () {
  UNWIND CASE WHEN $pending_reason IS NULL THEN $windows ELSE [] END AS window
  MATCH (first:@Event {scope: $scope, memory_id: window.first})
// include turns_before
  RETURN collect({ingest: window.ingest, turns: turns}) AS contexts
}
CALL () {
  UNWIND CASE WHEN $pending_reason IS NULL THEN [1] ELSE [] END AS once
  MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL AND NOT (n)-[:MERGED_INTO]->()
  WITH n, COUNT { (n)<-[:SUBJECT|OBJECT]-() } AS weight WHERE weight > 0 OR EXISTS { (n)<-[:MENTIONS]-() }
  WITH n, weight ORDER BY weight DESC, n.key LIMIT $entities
  RETURN collect({
    entity:
// include known_entity
    , facts: CASE WHEN weight < $familiar THEN COLLECT {
      MATCH (n)<-[:SUBJECT|OBJECT]-(f:@Fact) WHERE f.open RETURN f.text ORDER BY f.timestamp, f.id LIMIT $facts
    } ELSE [] END
  }) AS entities
}
CALL () {
  UNWIND CASE WHEN $pending_reason IS NULL THEN [1] ELSE [] END AS once
  MATCH (m:@Memory {scope: $scope, unembedded: true})
  WITH m LIMIT $texts
  RETURN collect({id: m.memory_id, text: m.text, before: coalesce(head([(before:@Memory)-[:NEXT]->(m) | before.text]), '')}) AS unembedded
}
RETURN contexts, entities, unembedded

// turns_before @fragment
// the turns before the first one of a window
  OPTIONAL MATCH (before:@Event {scope: $scope, session_uid: first.session_uid})
  WHERE before.seq >= first.seq - $context AND before.seq < first.seq AND before.memory_id IS NOT NULL
  WITH window, before ORDER BY before.seq
  WITH window, collect(before {.id, .author, .role, .origin, .text, .own_text, .shown, .timestamp, .offset, .seq}) AS turns

// finish_ingest
// one row if the claim still stands: whether nothing of this user was written since the candidates were looked up
MATCH (u:@User {scope: $scope})
SET u.lock = 0
WITH u
MATCH (i:@Ingest {scope: $scope, id: $ingest, lease: $lease})
WHERE i.state = 'claimed' AND NOT EXISTS { MATCH (i)-[:READS]->(e:@Event) WHERE e.ingest <> i.id }
WITH u, i, coalesce(u.writes, 0) = $writes AS is_current
FOREACH (_ IN CASE WHEN is_current THEN [1] ELSE [] END |
  SET u.writes = $writes + 1, i.state = 'done', i.done_at = datetime(), i.report = $report, i.extractor = $extractor,
      i.reading = $reading, i.held = $held, i.written = $writes + 1, i.reason = null, u.authors = coalesce(u.authors, []) + [name IN $authors WHERE NOT name IN coalesce(u.authors, [])])
RETURN is_current

// mark_unread
// nothing; turns that a model could not read, each with the reason
UNWIND $rows AS row
MATCH (:@Ingest {scope: $scope, id: $ingest})-[reads:READS]->(:@Event {scope: $scope, memory_id: row.memory_id})
SET reads.unread = row.reason

// fail_ingest
// nothing; the request is pending again, with the reason
MATCH (i:@Ingest {scope: $scope, state: 'claimed'}) WHERE i.lease = $lease AND ($ingest IS NULL OR i.id = $ingest)
SET i.state = 'pending', i.lease_until = 0.0, i.reason = $reason

// merge_metadata
// nothing; what a caller says of turns that memory has read before
UNWIND $ids AS id
MATCH (e:@Event {scope: $scope, memory_id: id})
SET e.metadata = [m IN coalesce(e.metadata, []) WHERE none(k IN $metadata.keys WHERE m STARTS WITH k)] + $metadata.members

// pending_ingests @operator
// a row for each request that nobody works at, some of them, the oldest first: whose it is, why it failed, how many seconds ago
// it was made, its turns, and its place in this order
// of several users: an operator, or a starting process, takes up what waits for anybody
UNWIND ['pending', 'claimed'] AS state
MATCH (i:@Ingest {state: state})
MATCH (u:@User {scope: i.scope})
WHERE ($app_name IS NULL OR u.app_name = $app_name) AND ($user_id IS NULL OR u.user_id = $user_id)
// include unfinished

// pending_ingests_of_user
// the same of one user
MATCH (i:@Ingest {scope: $scope}) WHERE i.state IN ['pending', 'claimed']
MATCH (u:@User {scope: i.scope})
// include unfinished

// claimed_ingests @operator
// a row for each request that a worker reads, that of the shortest lease first: whose it is, and until when it is leased
// of several users: an operator sees what is being read, and when what a dead process read is free
MATCH (i:@Ingest {state: 'claimed'}) WHERE i.lease_until > $now
  AND EXISTS { MATCH (i)-[:READS]->(e:@Event) WHERE e.ingest = i.id }
MATCH (u:@User {scope: i.scope})
WHERE ($app_name IS NULL OR u.app_name = $app_name) AND ($user_id IS NULL OR u.user_id = $user_id)
RETURN u.app_name AS app_name, u.user_id AS user_id, i.session_id AS session_id, i.lease_until AS lease_until
ORDER BY lease_until

// reads_turns @fragment
// whether a request has turns to read; those that a later request took over it has not
EXISTS { MATCH (i)-[:READS]->(e:@Event) WHERE e.ingest = i.id }

// has_failed @fragment
// whether an unfinished request was tried, and no worker is processing it
i.attempts > 0 AND (i.state = 'pending' OR i.lease_until <= $now)

// count_waiting @operator
// one row: how many requests of an app, or of all, wait or are being read; how many of them nobody works at any more, though
// somebody tried; and how many seconds ago the oldest was made
// of several users: an operator sees how much waits
UNWIND ['pending', 'claimed'] AS state
MATCH (i:@Ingest {state: state}) WHERE
// include reads_turns
MATCH (u:@User {scope: i.scope}) WHERE $app_name IS NULL OR u.app_name = $app_name
RETURN count(i) AS pending,
       count(CASE WHEN
// include has_failed
         THEN i END) AS failed,
       max((datetime().epochMillis - i.requested_at.epochMillis) / 1000.0) AS oldest_seconds

// unfinished @fragment
// the rows of both, of users u and their requests i
WITH u, i
WHERE (i.state = 'pending' OR i.lease_until <= $now) AND ($max_attempts IS NULL OR i.attempts < $max_attempts)
  AND ($before IS NULL OR i.requested_at.epochMillis <= $before * 1000)
  AND EXISTS { MATCH (i)-[:READS]->(e:@Event) WHERE e.ingest = i.id AND e.memory_id IS NOT NULL }
WITH u, i, i {.id, whose: i.scope, at: coalesce(i.requested_at.epochSeconds * 1000000000 + i.requested_at.nanosecond, 0)} AS place
WHERE $after IS NULL OR place.at > $after.at
  OR (place.at = $after.at AND (place.whose > $after.whose OR (place.whose = $after.whose AND place.id > $after.id)))
WITH u, i, place ORDER BY place.at, place.whose, place.id LIMIT $limit
MATCH (i)-[:READS]->(e:@Event) WHERE e.ingest = i.id AND e.memory_id IS NOT NULL
WITH u, i, place, e ORDER BY e.seq
WITH u, i, place, collect(e {.id, .author, .role, .origin, .text, .own_text, .shown, .timestamp, .offset, .seq, .expires_at, .revisions_expire_at}) AS turns
RETURN u.app_name AS app_name, u.user_id AS user_id, i.session_id AS session_id, i.attempts AS attempts,
       i.reason AS reason, i.topics AS topics, i.model AS model, turns,
       (datetime().epochMillis - i.requested_at.epochMillis) / 1000.0 AS waited, place
ORDER BY place.at, place.whose, place.id

// ingest_reports_of_user
// a row for each finished request of a user: on which day, by what, and its report
MATCH (i:@Ingest {scope: $scope, state: 'done'}) WHERE i.report IS NOT NULL
RETURN toString(date(i.done_at)) AS day, i.extractor AS extractor, i.report AS report

// ingest_reports @operator
// a row for each finished request: whose, on which day, by what, and its report
// of several users: an operator asks what remembering cost
MATCH (u:@User)
WHERE u.scope IS NOT NULL AND ($app_name IS NULL OR u.app_name = $app_name) AND ($user_id IS NULL OR u.user_id = $user_id)
MATCH (i:@Ingest {scope: u.scope, state: 'done'}) WHERE i.report IS NOT NULL
RETURN u.app_name AS app_name, u.user_id AS user_id, toString(date(i.done_at)) AS day, i.extractor AS extractor,
       i.report AS report
