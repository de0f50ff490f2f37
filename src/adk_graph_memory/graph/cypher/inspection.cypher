// inspected_turn @fragment
// a turn as a page shows it
e {.memory_id, .id, .session_id, .seq, .author, .role, .origin, .text, .shown, .timestamp, .offset, .manner, .writer, .ingest}

// inspected_facts
// a row for each fact of these ids: with its entities' keys, what it ended and what ended it, what it rests on and what rests
// on it, and what it said before each change
UNWIND $ids AS id
MATCH (f:@Memory {scope: $scope, memory_id: id})
WHERE f:@Fact AND
// include fact_stands
WITH f
// include stored_fact
       , f.extractor AS extractor, f.recorded_at AS recorded_at, f.metadata AS metadata, f.direct AS direct,
       f.ruling_reason AS ruling_reason,
       COLLECT {
         MATCH (f)-[:SUPPORTED_BY]->(memory:@Event)
         WHERE
// include memory_stands
         WITH DISTINCT memory ORDER BY memory.timestamp, memory.seq
         RETURN memory.memory_id
       } AS turn_ids,
       COLLECT {
         MATCH (f)-[s:SUPERSEDES|WOULD_SUPERSEDE]->(memory:@Fact)
         WHERE
// include memory_stands
         RETURN {id: memory.memory_id, text: memory.text, state: memory.state, op: s.op, reason: s.reason, is_void: type(s) = 'WOULD_SUPERSEDE'}
         ORDER BY memory.timestamp DESC, memory.memory_id
       } AS replaced,
       COLLECT {
         MATCH (f)<-[s:SUPERSEDES|WOULD_SUPERSEDE]-(memory:@Fact)
         WHERE
// include memory_stands
         RETURN {id: memory.memory_id, text: memory.text, state: memory.state, op: s.op, reason: s.reason, is_void: type(s) = 'WOULD_SUPERSEDE'}
         ORDER BY memory.timestamp DESC, memory.memory_id
       } AS replaced_by,
       COLLECT {
         MATCH (f)-[:DEPENDS_ON]->(memory:@Fact)
         WHERE
// include memory_stands
         RETURN {id: memory.memory_id, text: memory.text, state: memory.state} ORDER BY memory.timestamp DESC, memory.memory_id
       } AS bases,
       COLLECT {
         MATCH (f)<-[:DEPENDS_ON]-(memory:@Fact)
         WHERE
// include memory_stands
         RETURN {id: memory.memory_id, text: memory.text, state: memory.state} ORDER BY memory.timestamp DESC, memory.memory_id
       } AS dependents,
       COLLECT {
         MATCH (f)-[:HAS_REVISION]->(r:@Revision)
         WHERE
// include revision_stands
         RETURN r {.n, .op, .reason, .by, .text, .state, .recorded_at, quotes: COLLECT {
           MATCH (r)-[b:BECAUSE_OF]->(memory:@Event)
           WHERE
// include memory_stands
           RETURN substring(memory.text, b.start, b.end - b.start) ORDER BY memory.timestamp, memory.seq
         }} ORDER BY r.recorded_at DESC, r.n
       } AS revisions

// turns_around
// a row for each of these turns and each turn near it, in the order in which they were said
UNWIND $ids AS id
MATCH (said:@Event {scope: $scope, memory_id: id})
MATCH (e:@Event {scope: $scope, session_uid: said.session_uid})
WHERE e.seq >= said.seq - $around AND e.seq <= said.seq + $around AND e.memory_id IS NOT NULL
WITH id, e, e AS memory
WHERE
// include memory_stands
WITH id, e ORDER BY e.timestamp, e.seq
RETURN id,
// include inspected_turn
AS turn

// names_of_entity
// one row, or none: name and aliases of an entity, or of that which it was merged into
MATCH (found:@Entity {scope: $scope, key: $key})
MATCH (found)-[:MERGED_INTO*0..]->(n:@Entity) WHERE NOT (n)-[:MERGED_INTO]->()
RETURN n.name AS name, n.aliases AS aliases

// inspected_entity
// one row, or none: an entity, or that which it was merged into; who was merged into it; and for each name the first turn that says it
MATCH (found:@Entity {scope: $scope, key: $key})
MATCH (found)-[:MERGED_INTO*0..]->(n:@Entity) WHERE NOT (n)-[:MERGED_INTO]->()
// include stored_entity
       , COUNT { (n)<-[:SUBJECT|OBJECT]-() } AS degree,
       COLLECT {
         MATCH (n)<-[m:MERGED_INTO]-(other:@Entity) RETURN {key: other.key, name: other.name, at: m.at, by: m.by, reason: m.reason} ORDER BY other.name
       } AS merged,
       COLLECT {
         UNWIND [n.name] + n.aliases AS name
         RETURN {name: name, turn: head(COLLECT {
           MATCH (n)<-[:MENTIONS]-(e:@Event)
           WHERE toLower(e.text) CONTAINS toLower(name)
           WITH e, e AS memory
           WHERE
// include memory_stands
           RETURN
// include inspected_turn
           ORDER BY e.timestamp, e.seq LIMIT 1
         })}
       } AS sayings

// facts_about
// a row for each fact about an entity, the newest first
MATCH (n:@Entity {scope: $scope, key: $key})<-[:SUBJECT|OBJECT]-(f:@Fact)
WHERE
// include fact_stands
WITH DISTINCT f ORDER BY f.timestamp DESC, f.id SKIP $skip LIMIT $limit
// include stored_fact
ORDER BY f.timestamp DESC, f.id

// facts_between
// a row for each fact that connects two of these entities, the newest first
UNWIND $keys AS key
MATCH (:@Entity {scope: $scope, key: key})<-[:SUBJECT]-(f:@Fact)-[:OBJECT]->(object:@Entity)
WHERE object.key IN $keys AND
// include fact_stands
WITH DISTINCT f ORDER BY f.timestamp DESC, f.id LIMIT $limit
// include stored_fact
ORDER BY f.timestamp DESC, f.id

// inspected_entities
// a row for each of these entities, or of all, that of most facts that hold first
MATCH (n:@Entity {scope: $scope})
WHERE n.key IS NOT NULL AND NOT (n)-[:MERGED_INTO]->()
  AND ($keys IS NULL OR n.key IN $keys)
  AND
// include entity_stands
WITH n,
// include facts_held
  AS facts ORDER BY facts DESC, toLower(n.name), n.key SKIP $skip LIMIT $limit
RETURN n.key AS key, n.name AS name, n.type AS type, n.aliases AS aliases, n.about AS about, facts
ORDER BY facts DESC, toLower(name), key

// session_summaries
// a row for each session of the user, and for each that memory alone knows, that of the latest turn first
CALL () {
  MATCH (s:@Session {scope: $scope})
  WHERE s.last_update_time IS NOT NULL AND
// include session_stands
  RETURN s.id AS id, s.display_name AS display_name, s.uid AS uid, s.revision AS events, 0 AS supports, s.last_update_time AS last_time
  UNION ALL
  MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IS NOT NULL
  WITH e, e AS memory
  WHERE
// include memory_stands
  RETURN e.session_id AS id, null AS display_name, e.session_uid AS uid, count(e) AS events,
    sum(COUNT { (e)<-[:SUPPORTED_BY]-() }) AS supports, max(e.timestamp) AS last_time
}
WITH id, head(collect(display_name)) AS display_name, collect(DISTINCT uid) AS uids, max(events) AS events,
  max(supports) AS supports, max(last_time) AS last_time
ORDER BY last_time DESC, id SKIP $skip LIMIT $limit
RETURN id, display_name, uids, events, supports, last_time

// documents
// a row for each session of passages whose id begins so, from the id $start on, by id: how many they are, and the latest one
MATCH (e:@Event {scope: $scope})
WHERE e.memory_id IS NOT NULL AND e.session_id STARTS WITH $prefix AND e.session_id >= $start
WITH e, e AS memory
WHERE
// include memory_stands
WITH e ORDER BY e.timestamp DESC, e.seq DESC
WITH e.session_id AS session_id, count(e) AS passages, head(collect(e {.author, .timestamp, .offset})) AS latest
ORDER BY session_id LIMIT $limit
RETURN session_id, passages, latest.author AS author, latest.timestamp AS timestamp, latest.offset AS offset

// session_turns
// a row for each turn of a session that says something, in their order, with what was read from it; $uids are the generated
// keys of the session, if they are known
OPTIONAL MATCH (s:@Session {scope: $scope, id: $session_id})
WHERE
// include session_stands
WITH s, coalesce($uids, COLLECT {
  MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IS NOT NULL AND e.session_id = $session_id RETURN DISTINCT e.session_uid
}) AS uids
CALL (s, uids) {
  MATCH (e:@Event {scope: $scope, session_uid: s.uid})
  WHERE e.seq IS NOT NULL AND
// include event_stands
  RETURN e
  UNION
  UNWIND uids AS uid
  MATCH (e:@Event {scope: $scope, session_uid: uid}) WHERE e.memory_id IS NOT NULL AND e.session_id = $session_id
  WITH e, e AS memory
  WHERE
// include memory_stands
  RETURN e
}
WITH e WHERE e.text <> ''
WITH e ORDER BY e.timestamp, e.seq SKIP $skip LIMIT $limit
RETURN
// include inspected_turn
AS turn,
  COLLECT {
    MATCH (e)<-[s:SUPPORTED_BY]-(memory:@Fact)
    WHERE
// include memory_stands
    RETURN {id: memory.memory_id, text: memory.text, state: memory.state, quote: s.quote, start: s.start, end: s.end} ORDER BY s.start, memory.memory_id
  } AS facts
ORDER BY e.timestamp, e.seq

// turn_place
// one row: how many turns of a session stand before this one
CALL () {
  MATCH (said:@Event {scope: $scope, memory_id: $memory_id})
  RETURN said
  UNION
  MATCH (s:@Session {scope: $scope, id: $session_id})
  MATCH (said:@Event {scope: $scope, session_uid: s.uid, id: $turn_id})
  RETURN said
}
WITH said LIMIT 1
MATCH (e:@Event {scope: $scope, session_uid: said.session_uid})
WHERE e.seq IS NOT NULL AND e.text <> '' AND (e.timestamp < said.timestamp OR (e.timestamp = said.timestamp AND e.seq < said.seq))
RETURN count(e) AS place

// shared_entities
// a row for each pair of memories: the second one, and the entities that both are about
UNWIND $pairs AS pair
MATCH (a:@Memory {scope: $scope, memory_id: pair[0]})
MATCH (b:@Memory {scope: $scope, memory_id: pair[1]})
WITH pair, a, b, b AS memory
WHERE
// include memory_stands
RETURN pair, b.text AS text, b.kind AS kind, b.session_id AS session_id, b.id AS turn_id,
       COLLECT { MATCH (a)-[:SUBJECT|OBJECT|MENTIONS]->(n:@Entity)<-[:SUBJECT|OBJECT|MENTIONS]-(b) RETURN DISTINCT n {.key, .name} LIMIT 3 } AS entities

// entities_by_key
// a row for each entity of these keys
UNWIND $keys AS key
MATCH (n:@Entity {scope: $scope, key: key})
// include stored_entity
