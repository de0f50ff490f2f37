// user_words
// one row: how often this user was written to; every turn that memory holds, or was asked to hold; statements that were added
// directly; and turns that a release read which kept no readings
OPTIONAL MATCH (u:@User {scope: $scope})
RETURN coalesce(u.writes, 0) AS writes,
       COLLECT { MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IS NOT NULL RETURN e {.memory_id, .session_id, .author, .role, .text, .timestamp} } AS turns,
       COLLECT { MATCH (f:@Fact {scope: $scope}) WHERE f.id IS NOT NULL AND f.direct RETURN f {.memory_id, .text, .timestamp} } AS statements,
       COLLECT {
         MATCH (i:@Ingest {scope: $scope, state: 'done'}) WHERE i.reading IS NULL
         MATCH (i)-[:READS]->(e:@Event) WHERE e.ingest = i.id AND e.memory_id IS NOT NULL
         RETURN e.memory_id
       } AS unrecorded

// readings
// a row for each window that was read and written, in the order of writing: what was read, when, and which of its turns nobody
// has read again since
MATCH (i:@Ingest {scope: $scope, state: 'done'})
WHERE i.reading IS NOT NULL
RETURN i.reading AS reading, i.done_at AS at,
       COLLECT { MATCH (i)-[:READS]->(e:@Event) WHERE e.ingest = i.id RETURN e.memory_id } AS turn_ids
ORDER BY i.written

// derived_facts
// a row for each fact that was extracted: all that it says, its history, and what it is linked to
MATCH (f:@Fact {scope: $scope}) WHERE f.id IS NOT NULL AND NOT f.direct
RETURN f {
  .id, .text, .predicate, .modality, .valid_from, .valid_to, .said_to, .valid_from_precision, .valid_to_precision,
  .said_to_precision, .topic, .author, .timestamp, .offset, .correction, .single, .state,
  subject: head(COLLECT { MATCH (f)-[:SUBJECT]->(s) RETURN s.key }),
  object: head(COLLECT { MATCH (f)-[:OBJECT]->(o) RETURN o.key }),
  subject_was: head(COLLECT { MATCH (f)-[r:SUBJECT]->() RETURN r.was }),
  object_was: head(COLLECT { MATCH (f)-[r:OBJECT]->() RETURN r.was }),
  absorbed: COLLECT { MATCH (f)-[:HAS_REVISION]->(r) WHERE r.op IN ['REFINE', 'REINFORCE'] RETURN r.signature },
  revisions: COLLECT { MATCH (f)-[:HAS_REVISION]->(r) RETURN r.n },
  links: COLLECT { MATCH (f)-[s:SUPERSEDES|WOULD_SUPERSEDE]->(earlier) RETURN {later: f.id, earlier: earlier.id, op: s.op, reason: s.reason, is_void: type(s) = 'WOULD_SUPERSEDE'} },
  bases: COLLECT { MATCH (f)-[:DEPENDS_ON]->(base) RETURN base.id },
  sources: COLLECT {
    MATCH (f)-[s:SUPPORTED_BY]->(e)
    RETURN s {.quote, .start, .end, .verified, turn_id: e.memory_id, session_id: e.session_id, timestamp: e.timestamp, offset: e.offset, seq: e.seq}
  }
} AS fact

// derived_entities
// a row for each entity, merged ones too, and the turns that mention it
MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL
RETURN n.key AS key, n.name AS name, n.type AS type, n.aliases AS aliases, coalesce(n.about, '') AS about,
       head(COLLECT { MATCH (n)-[:MERGED_INTO]->(one) RETURN one.key }) AS merged_into,
       COLLECT { MATCH (e:@Event)-[r:MENTIONS]->(n) RETURN [e.memory_id, r.was] } AS mentions

// begin_rewrite
// one row: whether nothing of this user was written since the graph was looked at
MATCH (u:@User {scope: $scope})
SET u.lock = 0
WITH u, coalesce(u.writes, 0) = $writes AS is_current
FOREACH (_ IN CASE WHEN is_current THEN [1] ELSE [] END | SET u.writes = $writes + 1)
RETURN is_current

// rewrite_readings
// nothing; a request of which nothing is left to be read goes
UNWIND $rows AS row
MATCH (i:@Ingest {scope: $scope, id: row.id})
SET i.reading = row.reading
WITH i WHERE i.reading IS NULL
DETACH DELETE i

// erase_facts
// nothing
UNWIND $rows AS id
MATCH (f:@Fact {scope: $scope, id: id})
OPTIONAL MATCH (f)-[:HAS_REVISION]->(r)
DETACH DELETE f, r

// erase_vectors
// nothing; facts are worded otherwise, and their vectors tell what they said before
UNWIND $rows AS id
MATCH (f:@Fact {scope: $scope, id: id})
SET f.embedding_a = null, f.embedding_b = null, f.tokens_a = null, f.tokens_b = null, f.unembedded = true

// erase_changes
// nothing; links, dependencies, mentions and revisions that are derived no more
CALL () {
  UNWIND $links AS pair
  MATCH (later:@Fact {scope: $scope, id: pair[0]})-[s:SUPERSEDES|WOULD_SUPERSEDE]->(earlier:@Fact {scope: $scope, id: pair[1]})
  DELETE s
}
CALL () {
  UNWIND $dependencies AS pair
  MATCH (f:@Fact {scope: $scope, id: pair[0]})-[d:DEPENDS_ON]->(base:@Fact {scope: $scope, id: pair[1]})
  DELETE d
}
CALL () {
  UNWIND $mentions AS pair
  MATCH (e:@Event {scope: $scope, memory_id: pair[0]})-[m:MENTIONS]->(n:@Entity {scope: $scope, key: pair[1]})
  DELETE m
}
CALL () {
  UNWIND $revisions AS pair
  MATCH (r:@Revision {scope: $scope, fact_id: pair[0], n: pair[1]})
  DETACH DELETE r
}

// erase_entities
// nothing
UNWIND $rows AS key
MATCH (n:@Entity {scope: $scope, key: key})
DETACH DELETE n

// rewrite_entities
// nothing; entities as they are derived, and into whom they were merged
UNWIND $rows AS row
MERGE (n:@Entity {scope: $scope, key: row.key})
ON CREATE SET n.created_at = datetime()
FOREACH (_ IN CASE WHEN n.name <> row.name THEN [1] ELSE [] END | SET n.embedding_a = null, n.embedding_b = null)
SET n.name = row.name, n.type = row.type, n.aliases = row.aliases, n.about = row.about
WITH n, row
CALL (n, row) {
  OPTIONAL MATCH (n)-[old:MERGED_INTO]->(former) WHERE former.key <> coalesce(row.merged_into, '')
  DELETE old
}
FOREACH (key IN CASE WHEN row.merged_into IS NULL THEN [] ELSE [row.merged_into] END |
  MERGE (one:@Entity {scope: $scope, key: key})
  MERGE (n)-[merged:MERGED_INTO]->(one)
  ON CREATE SET merged.at = datetime(), merged.by = row.merged_by)
WITH n, row WHERE row.vector IS NOT NULL
CALL db.create.setNodeVectorProperty(n, $slot, row.vector)

// rewrite_mentions
// nothing
UNWIND $rows AS row
MATCH (e:@Event {scope: $scope, memory_id: row.event})
WITH e, row
MATCH (n:@Entity {scope: $scope, key: row.key})
MERGE (e)-[m:MENTIONS]->(n)
SET m.was = row.was

// rewrite_fact_entities
// nothing; of whom and of what facts speak
UNWIND $rows AS row
MATCH (f:@Fact {scope: $scope, id: row.id})
CALL (f, row) {
  OPTIONAL MATCH (f)-[r:SUBJECT]->(n) WHERE n.key <> coalesce(row.subject, '')
  DELETE r
}
CALL (f, row) {
  OPTIONAL MATCH (f)-[r:OBJECT]->(n) WHERE n.key <> coalesce(row.object, '')
  DELETE r
}
CALL (f, row) {
  MATCH (f)-[r:SUBJECT]->() SET r.was = row.subject_was
}
CALL (f, row) {
  MATCH (f)-[r:OBJECT]->() SET r.was = row.object_was
}
