// session_memories
// one row: the ids of all that memory holds, or was asked to hold, of a session
MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IS NOT NULL AND e.session_id = $session_id
RETURN collect(e.memory_id) AS ids

// known_memories
// one row: how many of these ids memory holds, or was asked to
CALL () {
  MATCH (m:@Memory {scope: $scope}) WHERE m.memory_id IN $ids
  RETURN m.memory_id AS id
  UNION
  MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IN $ids
  RETURN e.memory_id AS id
}
RETURN count(id) AS known

// entomb
// nothing; what was said in these events is refused from now on, however it is worded
UNWIND $rows AS key
MERGE (grave:@Tombstone {scope: $scope, key: key})
ON CREATE SET grave.at = datetime()

// erase_events
// nothing; memory forgets these events, which stay in their session if that is in this graph; what was embedded as an answer to
// one of them is to be embedded anew
UNWIND $rows AS id
MATCH (e:@Event {scope: $scope, memory_id: id})
WITH collect(e) AS events
CALL (events) {
  UNWIND events AS e
  MATCH (e)-[:NEXT]->(later:@Memory)
  WHERE NOT later IN events AND (later.tokens_a IS NOT NULL OR later.tokens_b IS NOT NULL)
  SET later.embedding_a = null, later.embedding_b = null, later.tokens_a = null, later.tokens_b = null, later.unembedded = true
}
CALL (events) {
  UNWIND events AS e
  OPTIONAL MATCH (e)-[m:MENTIONS]->()
  DELETE m
  WITH DISTINCT e
  OPTIONAL MATCH (e)<-[said:SUPPORTED_BY|BECAUSE_OF|READS]-()
  DELETE said
  WITH DISTINCT e
  REMOVE e:@Memory
  SET e.open = null, e.kind = null, e.words = null, e.extracted = null, e.unembedded = null, e.metadata = null,
      e.manner = null, e.writer = null, e.origin = null,
      e.text = CASE e.own_text WHEN '' THEN null ELSE coalesce(e.own_text, e.text) END, e.own_text = null, e.shown = null,
      e.embedding_a = null, e.embedding_b = null, e.tokens_a = null, e.tokens_b = null, e.memory_id = null, e.ingest = null
// include proposal_withdrawal
  WITH e WHERE e.body IS NULL
  CALL (e) {
    MATCH (earlier)-[:NEXT]->(e)-[:NEXT]->(later)
    MERGE (earlier)-[:NEXT]->(later)
  }
  DETACH DELETE e
}

// erase_writers
// nothing; what a model called the writers of turns that stay, now or when these were read before
CALL () {
  MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IS NOT NULL AND e.writer IN $names
  SET e.writer = null
}
CALL () {
  MATCH (i:@Ingest {scope: $scope}) WHERE i.id IS NOT NULL
  MATCH (i)-[r:READS]->() WHERE r.writer IN $names
  SET r.writer = null
}

// erase_statements
// one row: how many statements that were added directly went
MATCH (f:@Memory {scope: $scope}) WHERE f.memory_id IN $ids AND f:@Fact AND f.direct
WITH collect(f) AS facts
CALL (facts) {
  UNWIND facts AS f
  OPTIONAL MATCH (f)-[:HAS_REVISION]->(r)
  DETACH DELETE f, r
}
RETURN size(facts) AS facts

// erase_idle_ingests
// nothing; requests whose turns are all forgotten, but for those that somebody is reading
MATCH (i:@Ingest {scope: $scope}) WHERE i.state <> 'claimed' AND i.is_ruling IS NULL AND NOT (i)-[:READS]->()
DETACH DELETE i

// know_authors
// nothing; who still speaks in this memory
MATCH (u:@User {scope: $scope})
SET u.authors = [name IN u.authors WHERE EXISTS {
  MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IS NOT NULL AND e.extracted IS NOT NULL AND e.author = name
}]

// spent_turns
// a row for each of these turns in which nothing is read any more: forgotten, or said before with nothing of it that still holds
UNWIND $rows AS row
OPTIONAL MATCH (e:@Event {scope: $scope, memory_id: row.memory_id})
WITH row, e
WHERE EXISTS { MATCH (grave:@Tombstone {scope: $scope}) WHERE grave.key IN row.tombstones }
  OR (e.extracted IS NOT NULL AND e.timestamp < row.timestamp
    AND EXISTS { (e)<-[:SUPPORTED_BY]-(:@Fact) } AND NOT EXISTS { (e)<-[:SUPPORTED_BY]-(f:@Fact) WHERE f.state = 'current' })
RETURN row.memory_id AS memory_id

// promoted_copies @operator
// one row: how many turns of an app's shared memories, apart from one, belong to these sessions, and how many statements have
// these ids
// of several users: somebody who forgets a fact learns how many copies the app's shared memories keep
MATCH (u:@User {app_name: $app_name}) WHERE u.user_id STARTS WITH ':' AND u.user_id <> coalesce($apart_from, '')
RETURN sum(COUNT {
  UNWIND $session_uids AS session_uid
  MATCH (e:@Event {scope: u.scope, session_uid: session_uid}) WHERE e.memory_id IS NOT NULL
  RETURN e
} + COUNT {
  UNWIND $statement_ids AS id
  MATCH (f:@Fact {scope: u.scope, id: id}) WHERE f.direct
  RETURN f
}) AS copies

// user_counts
// one row: how much of each kind the graph holds of a user
RETURN COUNT { MATCH (s:@Session {scope: $scope}) WHERE s.id IS NOT NULL } AS sessions,
       COUNT { MATCH (e:@Event {scope: $scope}) WHERE e.session_uid IS NOT NULL AND e.id IS NOT NULL } AS events,
       COUNT { MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IS NOT NULL } AS turns,
       COUNT { MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL } AS entities,
       COUNT { MATCH (f:@Fact {scope: $scope}) WHERE f.id IS NOT NULL } AS facts,
       COUNT { MATCH (a:@Artifact {scope: $scope}) WHERE a.session_id IS NOT NULL AND a.name IS NOT NULL } AS artifacts,
       COUNT { MATCH (grave:@Tombstone {scope: $scope}) WHERE grave.key IS NOT NULL } AS tombstones

// turn_ids
// one row: some ids of turns that memory holds, or was asked to hold
MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IS NOT NULL
WITH e.memory_id AS id LIMIT $limit
RETURN collect(id) AS ids

// erase_some_facts
// one row: how many facts went
MATCH (f:@Fact {scope: $scope}) WHERE f.id IS NOT NULL
WITH f LIMIT $limit
OPTIONAL MATCH (f)-[:HAS_REVISION]->(r)
WITH collect(DISTINCT f) AS facts, collect(r) AS revisions
FOREACH (r IN revisions | DETACH DELETE r)
FOREACH (f IN facts | DETACH DELETE f)
RETURN size(facts) AS nodes

// erase_some_entities
// one row: how many entities and requests went
CALL () {
  MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL
  RETURN n LIMIT $limit
  UNION
  MATCH (n:@Ingest {scope: $scope}) WHERE n.id IS NOT NULL
  RETURN n LIMIT $limit
}
WITH collect(n) AS nodes
FOREACH (n IN nodes | DETACH DELETE n)
RETURN size(nodes) AS nodes

// erase_some_events
// one row: how many events went
MATCH (e:@Event {scope: $scope}) WHERE e.session_uid IS NOT NULL AND e.id IS NOT NULL
WITH e LIMIT $limit
WITH collect(e) AS events
FOREACH (e IN events | DETACH DELETE e)
RETURN size(events) AS nodes

// erase_some_sessions
// one row: how many sessions went
MATCH (s:@Session {scope: $scope}) WHERE s.id IS NOT NULL
WITH s LIMIT $limit
WITH collect(s) AS sessions
FOREACH (s IN sessions | DETACH DELETE s)
RETURN size(sessions) AS nodes

// erase_some_user
// one row: how many users went, with their state: one, unless the graph still holds anything else of them
MATCH (u:@User {scope: $scope}) WHERE NOT (u)-[:HAS_SESSION|HAS_ARTIFACT]->()
WITH collect(u) AS users
FOREACH (u IN users | DETACH DELETE u)
RETURN size(users) AS nodes

// interrupt_writers
// nothing; whoever is about to write to this user has to look at the graph again
MATCH (u:@User {scope: $scope})
SET u.lock = 0, u.writes = coalesce(u.writes, 0) + 1, u.authors = []
