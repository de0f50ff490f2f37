// unread_turns
// a row for each given turn that memory has not read as it is: what is known of it, and whether another worker reads it
MERGE (u:@User {scope: $scope})
ON CREATE SET u.app_name = $app_name, u.user_id = $user_id, u.state = []
SET u.lock = 0
WITH u
OPTIONAL MATCH (s:@Session {scope: $scope, id: $session_id})
CALL () {
  OPTIONAL MATCH (last:@Event {scope: $scope, session_uid: $foreign_uid}) WHERE last.seq > 0
  RETURN last.seq AS last_seq ORDER BY last_seq DESC LIMIT 1
}
UNWIND $turns AS turn
OPTIONAL MATCH (remembered:@Event {scope: $scope, memory_id: turn.memory_id})
OPTIONAL MATCH (stored:@Event {scope: $scope, session_uid: s.uid, id: turn.id})
OPTIONAL MATCH (grave:@Tombstone {scope: $scope, key: turn.memory_id})
WITH s, last_seq, turn, grave, coalesce(remembered, stored) AS event
OPTIONAL MATCH (i:@Ingest {scope: $scope, id: event.ingest}) WHERE i.state = 'claimed' AND i.lease_until > $now AND i.lease <> $lease
WITH s, last_seq, turn, event, i
WHERE grave IS NULL AND NOT coalesce(event.extracted ENDS WITH turn.text_key, false)
OPTIONAL MATCH (m:@Meta {key: 'schema'})
RETURN turn.id AS id, s.uid AS uid, coalesce(last_seq, 0) AS last_seq, event IS NULL AS is_missing,
       event.extracted IS NOT NULL AS is_edited, i IS NOT NULL AS is_busy, m.live AS live

// claim_turns
// nothing; the request stands with the turns it was given, and is this worker's until the lease ends
MERGE (i:@Ingest {scope: $scope, id: $ingest})
ON CREATE SET i.session_id = $session_id, i.requested_at = datetime(), i.attempts = 0
SET i.state = 'claimed', i.lease = $lease, i.lease_until = $lease_until, i.attempts = i.attempts + 1
WITH i
UNWIND $turns AS turn
OPTIONAL MATCH (remembered:@Event {scope: $scope, memory_id: turn.memory_id})
OPTIONAL MATCH (stored:@Event {scope: $scope, session_uid: $uid, id: turn.id})
WITH i, turn, coalesce(remembered, stored) AS event
FOREACH (_ IN CASE WHEN event IS NULL THEN [1] ELSE [] END |
  CREATE (new:@Event {scope: $scope, session_uid: $foreign_uid, session_id: $session_id, id: turn.id, seq: turn.seq,
    author: turn.author, timestamp: turn.timestamp, role: turn.role, text: turn.text, memory_id: turn.memory_id,
    ingest: $ingest})
  CREATE (i)-[:READS]->(new))
FOREACH (known IN CASE WHEN event IS NULL THEN [] ELSE [event] END |
  SET known.text = turn.text, known.role = turn.role, known.memory_id = turn.memory_id, known.ingest = $ingest
  MERGE (i)-[:READS]->(known))

// chain_turns
// nothing; turns that no session service stored are chained in the order they were given
MATCH (later:@Event {scope: $scope, session_uid: $foreign_uid}) WHERE later.seq > $last_seq
MATCH (earlier:@Event {scope: $scope, session_uid: $foreign_uid, seq: later.seq - 1})
MERGE (earlier)-[:NEXT]->(later)

// known
// one row: [key, name, type, aliases] of the user's entities, those of most facts first, and [id, text] of the
// memories that still lack their vector
CALL () {
  MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL
  WITH n, COUNT { (n)<-[:SUBJECT|OBJECT]-() } AS weight ORDER BY weight DESC, n.key LIMIT $entities
  RETURN collect([n.key, n.name, n.type, n.aliases]) AS entities
}
CALL () {
  MATCH (m:@Memory {scope: $scope, unembedded: true})
  WITH m LIMIT $texts
  RETURN collect([m.memory_id, m.text]) AS unembedded
}
RETURN entities, unembedded

// entities_by_key
// one row: [key, name, type, aliases] of those of these entities that exist
UNWIND $keys AS wanted
MATCH (n:@Entity {scope: $scope, key: wanted})
RETURN collect([n.key, n.name, n.type, n.aliases]) AS entities

// same_facts
// one row: the facts that already say the same, and the words of which no fact may be made
OPTIONAL MATCH (f:@Fact {scope: $scope}) WHERE f.signature IN $signatures
WITH collect([f.signature, f.id]) AS facts
OPTIONAL MATCH (grave:@Tombstone {scope: $scope}) WHERE grave.key IN $quotes
RETURN facts, collect(grave.key) AS forgotten

// finish_ingest
// one row if the claim still stands, none if another worker took over
MATCH (i:@Ingest {scope: $scope, id: $ingest, lease: $lease})
WHERE i.state = 'claimed' AND NOT EXISTS { MATCH (i)-[:READS]->(e:@Event) WHERE e.ingest <> i.id }
SET i.state = 'done', i.done_at = datetime(), i.report = $report, i.extractor = $extractor, i.reason = null
RETURN i.id AS id

// fail_ingest
// nothing; the request is pending again, with the reason
MATCH (i:@Ingest {scope: $scope, state: 'claimed'}) WHERE i.lease = $lease
SET i.state = 'pending', i.lease_until = 0.0, i.reason = $reason

// write_events
// nothing
UNWIND $rows AS row
MATCH (e:@Event {scope: $scope, memory_id: row.memory_id})
SET e:@Memory, e.kind = 'event', e.open = true, e.words = row.words, e.extracted = row.extracted,
    e.unembedded = CASE WHEN row.vector IS NULL AND $embeds THEN true END
WITH e, row WHERE row.vector IS NOT NULL
CALL db.create.setNodeVectorProperty(e, $slot, row.vector)

// write_entities
// nothing
UNWIND $rows AS row
MERGE (n:@Entity {scope: $scope, key: row.key})
ON CREATE SET n.name = row.name, n.type = row.type, n.aliases = row.aliases, n.created_at = datetime()
ON MATCH SET n.aliases = n.aliases + [a IN row.aliases WHERE NOT a IN n.aliases AND a <> n.name]
WITH n, row WHERE row.vector IS NOT NULL
CALL db.create.setNodeVectorProperty(n, $slot, row.vector)

// write_facts
// nothing; a fact whose every word was forgotten while it was read is not written
UNWIND $rows AS row
WITH row WHERE row.direct OR EXISTS { MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IN row.events }
MERGE (f:@Fact {scope: $scope, id: row.id})
ON CREATE SET f:@Memory, f.kind = 'fact', f.open = true, f.memory_id = 'fact:' + row.id, f.signature = row.signature,
  f.text = row.text, f.words = row.words, f.predicate = row.predicate, f.modality = row.modality, f.topic = row.topic,
  f.author = row.author, f.timestamp = row.timestamp, f.valid_from = row.valid_from, f.valid_to = row.valid_to,
  f.recorded_at = datetime(), f.direct = row.direct, f.extractor = $extractor, f.support = 0,
  f.unembedded = CASE WHEN row.vector IS NULL AND $embeds THEN true END
SET f.metadata = [m IN coalesce(f.metadata, []) WHERE none(k IN row.metadata.keys WHERE m STARTS WITH k)] + row.metadata.members
FOREACH (_ IN CASE WHEN row.direct THEN [1] ELSE [] END |
  SET f.text = row.text, f.words = row.words, f.author = row.author, f.timestamp = row.timestamp)
FOREACH (_ IN CASE WHEN row.ingest IS NULL THEN [] ELSE [1] END |
  MERGE (i:@Ingest {scope: $scope, id: row.ingest}) MERGE (i)-[:WROTE]->(f))
FOREACH (key IN CASE WHEN row.subject IS NULL THEN [] ELSE [row.subject] END |
  MERGE (s:@Entity {scope: $scope, key: key}) MERGE (f)-[:SUBJECT]->(s))
FOREACH (key IN CASE WHEN row.object IS NULL THEN [] ELSE [row.object] END |
  MERGE (o:@Entity {scope: $scope, key: key}) MERGE (f)-[:OBJECT]->(o))
WITH f, row WHERE row.vector IS NOT NULL
CALL db.create.setNodeVectorProperty(f, $slot, row.vector)

// write_support
// nothing; every fact points to the words it rests on
UNWIND $rows AS row
MATCH (f:@Fact {scope: $scope, id: row.fact})
MATCH (e:@Event {scope: $scope, memory_id: row.event})
MERGE (f)-[s:SUPPORTED_BY {key: row.key}]->(e)
ON CREATE SET s.quote = row.quote, s.start = row.start, s.end = row.end
WITH DISTINCT f
SET f.support = COUNT { (f)-[:SUPPORTED_BY]->() }

// retract_support
// nothing; what edited turns no longer say supports no fact, and a fact that nothing supports goes
UNWIND $rows AS row
MATCH (e:@Event {scope: $scope, memory_id: row.event})<-[s:SUPPORTED_BY]-(f:@Fact)
WHERE NOT s.key IN row.keys
DELETE s
WITH DISTINCT f
SET f.support = COUNT { (f)-[:SUPPORTED_BY]->() }
WITH f WHERE f.support = 0 AND NOT f.direct
DETACH DELETE f

// write_mentions
// nothing
UNWIND $rows AS row
MATCH (e:@Event {scope: $scope, memory_id: row.event})
MATCH (n:@Entity {scope: $scope, key: row.entity})
MERGE (e)-[:MENTIONS]->(n)

// embed_memories
// nothing
UNWIND $rows AS row
MATCH (n:@Memory {scope: $scope, memory_id: row.memory_id})
SET n.unembedded = null
WITH n, row
CALL db.create.setNodeVectorProperty(n, $slot, row.vector)

// merge_metadata
// nothing; what a caller says of turns that memory has read before
UNWIND $ids AS id
MATCH (e:@Event {scope: $scope, memory_id: id})
SET e.metadata = [m IN coalesce(e.metadata, []) WHERE none(k IN $metadata.keys WHERE m STARTS WITH k)] + $metadata.members

// know_user
// nothing
MERGE (u:@User {scope: $scope})
ON CREATE SET u.app_name = $app_name, u.user_id = $user_id, u.state = []

// ingests
// a row for each request of the user, the newest last
MATCH (i:@Ingest {scope: $scope}) WHERE i.id IS NOT NULL
RETURN i.id AS id, i.session_id AS session_id, i.state AS state, i.reason AS reason, i.report AS report
ORDER BY i.requested_at

// session_memories
// one row: the ids of all that memory holds, or was asked to hold, of a session
MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IS NOT NULL AND e.session_id = $session_id
RETURN collect(e.memory_id) AS ids

// forget_facts
// one row: how many facts went; their words are marked, so that they do not come back
MATCH (f:@Memory {scope: $scope}) WHERE f.memory_id IN $ids AND f:@Fact
CALL (f) {
  MATCH (f)-[s:SUPPORTED_BY]->(e)
  MERGE (grave:@Tombstone {scope: $scope, key: e.memory_id + ':' + s.key})
  ON CREATE SET grave.at = datetime()
}
WITH collect(f) AS facts
FOREACH (f IN facts | DETACH DELETE f)
RETURN size(facts) AS facts

// forget_events
// one row: how many events went, and how many facts rested on them alone
MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IN $ids
MERGE (grave:@Tombstone {scope: $scope, key: e.memory_id})
ON CREATE SET grave.at = datetime()
WITH collect(e) AS events
CALL (events) {
  UNWIND events AS e
  MATCH (f:@Fact)-[s:SUPPORTED_BY]->(e)
  DELETE s
  WITH DISTINCT f
  SET f.support = COUNT { (f)-[:SUPPORTED_BY]->() }
  WITH f WHERE f.support = 0 AND NOT f.direct
  WITH collect(f) AS unsupported
  FOREACH (f IN unsupported | DETACH DELETE f)
  RETURN size(unsupported) AS facts
}
CALL (events) {
  UNWIND events AS e
  OPTIONAL MATCH (e)-[m:MENTIONS]->()
  DELETE m
  WITH DISTINCT e
  REMOVE e:@Memory
  SET e.open = null, e.kind = null, e.words = null, e.extracted = null, e.unembedded = null, e.metadata = null,
      e.embedding_a = null, e.embedding_b = null, e.memory_id = null, e.ingest = null
  WITH e WHERE e.body IS NULL
  CALL (e) {
    MATCH (earlier)-[:NEXT]->(e)-[:NEXT]->(later)
    MERGE (earlier)-[:NEXT]->(later)
  }
  DETACH DELETE e
}
RETURN size(events) AS events, facts

// forget_unused_entities
// one row: how many entities nothing speaks of any more went
MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL AND NOT (n)--()
WITH collect(n) AS unused
FOREACH (n IN unused | DETACH DELETE n)
RETURN size(unused) AS entities

// counts
// one row: how much of each kind the graph holds of a user
RETURN COUNT { MATCH (s:@Session {scope: $scope}) WHERE s.id IS NOT NULL } AS sessions,
       COUNT { MATCH (e:@Memory {scope: $scope}) WHERE e.memory_id STARTS WITH 'event:' } AS turns,
       COUNT { MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL } AS entities,
       COUNT { MATCH (f:@Fact {scope: $scope}) WHERE f.id IS NOT NULL } AS facts
