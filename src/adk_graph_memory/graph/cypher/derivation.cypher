// user_words
// one row: how often this user was written to; every turn that memory holds, or was asked to hold; and statements that were
// added directly
OPTIONAL MATCH (u:@User {scope: $scope})
RETURN coalesce(u.writes, 0) AS writes,
       COLLECT { MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IS NOT NULL WITH e, e AS memory
         RETURN e {.memory_id, .id, .session_id, .author, .role, .origin, .text, .own_text, .timestamp, .expires_at, writers:
           [e.writer] + COLLECT { MATCH (e)<-[r:READS]-() RETURN r.writer }, stands:
// include memory_stands
         }
       } AS turns,
       COLLECT { MATCH (f:@Fact {scope: $scope}) WHERE f.id IS NOT NULL AND f.direct
         RETURN f {.memory_id, .text, .predicate, .modality, .topic, .author, .origin, .timestamp, .offset, .recorded_at, .expires_at, stands:
// include fact_stands
         }
       } AS statements

// readings
// a row for each window that was read and written, in the order of writing: its request, what was read, by what and when, and
// its turns that nobody has edited since, with when they were read again
MATCH (i:@Ingest {scope: $scope, state: 'done'})
RETURN i.id AS id, i.session_id AS session_id, i.extractor AS extractor, coalesce(i.reading, '') AS reading, i.done_at AS at,
       COLLECT {
         MATCH (i)-[r:READS]->(e:@Event) WHERE e.ingest = i.id OR r.reread_at IS NOT NULL
         RETURN {id: e.memory_id, reread_at: r.reread_at}
       } AS turns
ORDER BY i.written

// derived_facts
// a row for each fact that was extracted: all that it says, its history, and what it is linked to
MATCH (f:@Fact {scope: $scope}) WHERE f.id IS NOT NULL AND NOT f.direct
RETURN f {
// include fact_columns
  , revisions: COLLECT {
    MATCH (f)-[:HAS_REVISION]->(r) RETURN [r.n, r.reason, COLLECT { MATCH (r)-[b:BECAUSE_OF]->(e) RETURN [e.memory_id, b.key] }]
  },
  links: COLLECT { MATCH (f)-[s:SUPERSEDES|WOULD_SUPERSEDE]->(earlier) RETURN {later: f.id, earlier: earlier.id, op: s.op, reason: s.reason, is_void: type(s) = 'WOULD_SUPERSEDE'} },
  bases: COLLECT { MATCH (f)-[:DEPENDS_ON]->(base) RETURN base.id }
} AS fact

// derived_entities
// a row for each entity, merged ones too, and the turns that mention it
MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL
RETURN n.key AS key, n.name AS name, n.type AS type, n.aliases AS aliases, coalesce(n.about, '') AS about,
       coalesce(n.own_names, []) AS own_names, coalesce(n.foreign_names, []) AS foreign_names,
       head(COLLECT { MATCH (n)-[m:MERGED_INTO]->(one) RETURN [one.key, coalesce(m.by, ''), coalesce(m.reason, '')] }) AS merger,
       COLLECT { MATCH (e:@Event)-[r:MENTIONS]->(n) RETURN [e.memory_id, r.was] } AS mentions

// confirm_snapshot
// one row: how often this user was written to; until the transaction ends, nobody writes to them
OPTIONAL MATCH (u:@User {scope: $scope})
SET u.lock = 0
RETURN coalesce(u.writes, 0) AS writes

// begin_rewrite
// one row: whether nothing of this user was written since the graph was looked at
MATCH (u:@User {scope: $scope})
SET u.lock = 0
WITH u, coalesce(u.writes, 0) = $writes AS is_current
FOREACH (_ IN CASE WHEN is_current THEN [1] ELSE [] END | SET u.writes = $writes + 1)
RETURN is_current

// write_owner_word
// nothing; what the owner of this memory said about it, as a request that was read, and the words if there are any
MERGE (i:@Ingest {scope: $scope, id: $id})
ON CREATE SET i.session_id = $session_id, i.requested_at = $at, i.attempts = 0
SET i.state = 'done', i.done_at = $at, i.written = $writes, i.reading = $reading, i.extractor = $by, i.is_ruling = true
WITH i
UNWIND $turns AS turn
MERGE (e:@Event {scope: $scope, memory_id: turn.memory_id})
ON CREATE SET e.session_uid = $session_uid, e.session_id = $session_id, e.id = turn.id, e.seq = 0, e.author = turn.author,
  e.role = turn.role, e.origin = turn.origin, e.text = turn.text, e.timestamp = turn.timestamp, e.offset = turn.offset
SET e.ingest = i.id
MERGE (i)-[:READS]->(e)

// rewrite_readings
// nothing; a request of which nothing is left to be read goes
UNWIND $rows AS row
MATCH (i:@Ingest {scope: $scope, id: row.id})
SET i.reading = row.reading, i.held = row.held, i.reviewed = row.reviewed
WITH i WHERE i.reading IS NULL
DETACH DELETE i

// erase_facts
// nothing
UNWIND $rows AS id
MATCH (f:@Fact {scope: $scope, id: id})
OPTIONAL MATCH (f)-[:HAS_REVISION]->(r)
DETACH DELETE f, r

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
