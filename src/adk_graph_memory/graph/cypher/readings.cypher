// readings
// a row for each window that was read and written, in the order of writing: what was read, when, and the texts of its turns
// that memory still holds
MATCH (i:@Ingest {scope: $scope, state: 'done'})
WHERE i.reading IS NOT NULL
RETURN i.id AS id, i.reading AS reading, i.done_at AS at,
       COLLECT { MATCH (i)-[:READS]->(e:@Event) WHERE e.ingest = i.id AND e.memory_id IS NOT NULL RETURN e.memory_id } AS turn_ids
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
