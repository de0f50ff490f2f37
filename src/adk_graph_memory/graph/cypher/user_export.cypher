// exported_node @fragment
// the end of each page: the nodes n, and their relationships, each of them with the node that has the fewest of its type
RETURN labels(n) AS labels, properties(n) AS properties,
       COLLECT {
         MATCH (n)-[r]->(other)
         WHERE other.scope = $scope AND NOT type(r) STARTS WITH 'HAS_'
         RETURN {type: type(r), is_outgoing: true, properties: properties(r), labels: labels(other), other:
// include node_key
         }
       } + COLLECT {
         MATCH (n)<-[r]-(other)
         WHERE other.scope = $scope AND type(r) STARTS WITH 'HAS_'
         RETURN {type: type(r), is_outgoing: false, properties: properties(r), labels: labels(other), other:
// include node_key
         }
       } AS edges

// node_key @fragment
// all that keys of nodes consist of, but for the scope
other {.id, .session_uid, .key, .fact_id, .n, .session_id, .name, .version}

// exported_apps @operator
// a row for each of some apps (of this name, or of all), by name
// of several users: an operator exports apps, with their state
MATCH (a:@App)
WHERE a.app_name > $after AND ($app_name IS NULL OR a.app_name = $app_name)
RETURN properties(a) AS properties ORDER BY a.app_name LIMIT $limit

// exported_user
// one row: the user's node, in the same columns
MATCH (n:@User {scope: $scope})
// include exported_node

// exported_marks
// one row: numbers that are others as soon as somebody has written to the user
OPTIONAL MATCH (u:@User {scope: $scope})
RETURN [coalesce(u.writes, 0), coalesce(u.state_time, 0),
        COUNT { MATCH (e:@Event {scope: $scope}) WHERE e.session_uid IS NOT NULL AND e.id IS NOT NULL },
        COUNT { MATCH (s:@Session {scope: $scope}) WHERE s.id IS NOT NULL },
        coalesce(head(COLLECT {
          MATCH (s:@Session {scope: $scope}) WHERE s.last_update_time IS NOT NULL
          RETURN s.last_update_time ORDER BY s.scope DESC, s.last_update_time DESC LIMIT 1
        }), 0),
        COUNT { MATCH (i:@Ingest {scope: $scope}) WHERE i.id IS NOT NULL },
        COUNT { MATCH (v:@ArtifactVersion {scope: $scope}) WHERE v.id IS NOT NULL }] AS marks

// hold_user_whole
// nothing; until the transaction ends nobody writes to the user, in memory, sessions or artifacts
MATCH (u:@User {scope: $scope})
SET u.lock = 0
WITH u
CALL () {
  MATCH (s:@Session {scope: $scope}) WHERE s.id IS NOT NULL
  SET s.lock = 0
}
CALL () {
  MATCH (a:@Artifact {scope: $scope}) WHERE a.session_id IS NOT NULL AND a.name IS NOT NULL
  SET a.lock = 0
}

// tombstones
// a row for each of these keys of tombstones that the user has, and when it was made
UNWIND $keys AS key
MATCH (grave:@Tombstone {scope: $scope, key: key})
RETURN grave.key AS key, grave.at AS at

// stray_tombstones @operator
// a row for each of the next tombstones of users who have gone, by scope and key
// of several users: a backup keeps what was forgotten from coming back, whoever comes back
MATCH (grave:@Tombstone)
WHERE grave.scope >= $after[0] AND grave.key IS NOT NULL AND (grave.scope > $after[0] OR grave.key > $after[1])
  AND NOT EXISTS { MATCH (:@User {scope: grave.scope}) }
RETURN grave.scope AS scope, grave.key AS key, grave.at AS at ORDER BY scope, key LIMIT $limit

// exported_sessions
// a row for each of the next nodes of this label, in the order of their key
MATCH (n:@Session {scope: $scope})
WHERE n.id > $after[0]
WITH n ORDER BY n.scope, n.id LIMIT $limit
// include exported_node

// exported_events
// a row for each of the next nodes of this label, in the order of their key; a seek for each part of it finds them, so that no
// page walks over those before it
CALL () {
  MATCH (n:@Event {scope: $scope, session_uid: $after[0]}) WHERE n.id > $after[1]
  WITH n ORDER BY n.scope, n.session_uid, n.id LIMIT $limit
  RETURN n
  UNION ALL
  MATCH (n:@Event {scope: $scope}) WHERE n.session_uid > $after[0] AND n.id IS NOT NULL
  WITH n ORDER BY n.scope, n.session_uid, n.id LIMIT $limit
  RETURN n
}
WITH n ORDER BY n.scope, n.session_uid, n.id LIMIT $limit
// include exported_node

// exported_entities
// a row for each of the next nodes of this label, in the order of their key
MATCH (n:@Entity {scope: $scope})
WHERE n.key > $after[0]
WITH n ORDER BY n.scope, n.key LIMIT $limit
// include exported_node

// exported_facts
// a row for each of the next nodes of this label, in the order of their key
MATCH (n:@Fact {scope: $scope})
WHERE n.id > $after[0]
WITH n ORDER BY n.scope, n.id LIMIT $limit
// include exported_node

// exported_revisions
// a row for each of the next nodes of this label, in the order of their key; a seek for each part of it finds them, so that no
// page walks over those before it
CALL () {
  MATCH (n:@Revision {scope: $scope, fact_id: $after[0]}) WHERE n.n > $after[1]
  WITH n ORDER BY n.scope, n.fact_id, n.n LIMIT $limit
  RETURN n
  UNION ALL
  MATCH (n:@Revision {scope: $scope}) WHERE n.fact_id > $after[0] AND n.n IS NOT NULL
  WITH n ORDER BY n.scope, n.fact_id, n.n LIMIT $limit
  RETURN n
}
WITH n ORDER BY n.scope, n.fact_id, n.n LIMIT $limit
// include exported_node

// exported_ingests
// a row for each of the next nodes of this label, in the order of their key
MATCH (n:@Ingest {scope: $scope})
WHERE n.id > $after[0]
WITH n ORDER BY n.scope, n.id LIMIT $limit
// include exported_node

// exported_tombstones
// a row for each of the next nodes of this label, in the order of their key
MATCH (n:@Tombstone {scope: $scope})
WHERE n.key > $after[0]
WITH n ORDER BY n.scope, n.key LIMIT $limit
// include exported_node

// exported_artifacts
// a row for each of the next nodes of this label, in the order of their key; a seek for each part of it finds them, so that no
// page walks over those before it
CALL () {
  MATCH (n:@Artifact {scope: $scope, session_id: $after[0]}) WHERE n.name > $after[1]
  WITH n ORDER BY n.scope, n.session_id, n.name LIMIT $limit
  RETURN n
  UNION ALL
  MATCH (n:@Artifact {scope: $scope}) WHERE n.session_id > $after[0] AND n.name IS NOT NULL
  WITH n ORDER BY n.scope, n.session_id, n.name LIMIT $limit
  RETURN n
}
WITH n ORDER BY n.scope, n.session_id, n.name LIMIT $limit
// include exported_node

// exported_artifact_versions
// a row for each of the next nodes of this label, in the order of their key; a seek for each part of it finds them, so that no
// page walks over those before it
CALL () {
  MATCH (n:@ArtifactVersion {scope: $scope, session_id: $after[0], name: $after[1]}) WHERE n.version > $after[2]
  WITH n ORDER BY n.scope, n.session_id, n.name, n.version LIMIT $limit
  RETURN n
  UNION ALL
  MATCH (n:@ArtifactVersion {scope: $scope, session_id: $after[0]}) WHERE n.name > $after[1] AND n.version IS NOT NULL
  WITH n ORDER BY n.scope, n.session_id, n.name, n.version LIMIT $limit
  RETURN n
  UNION ALL
  MATCH (n:@ArtifactVersion {scope: $scope}) WHERE n.session_id > $after[0] AND n.name IS NOT NULL AND n.version IS NOT NULL
  WITH n ORDER BY n.scope, n.session_id, n.name, n.version LIMIT $limit
  RETURN n
}
WITH n ORDER BY n.scope, n.session_id, n.name, n.version LIMIT $limit
// include exported_node

// exported_event_places
// a row for each event: its key, its number, when it was said and when it expires, its id in memory, the key of the next one,
// and when its session was created, if there is that session
MATCH (e:@Event {scope: $scope}) WHERE e.session_uid IS NOT NULL AND e.id IS NOT NULL
RETURN e.session_uid AS session_uid, e.id AS id, coalesce(e.seq, 0) AS seq, e.timestamp AS timestamp,
       e.expires_at AS expires_at, e.revisions_expire_at AS revisions_expire_at, e.memory_id AS memory_id,
       head(COLLECT { MATCH (e)-[:NEXT]->(later) RETURN [later.session_uid, later.id] }) AS next,
       head(COLLECT { MATCH (e)<-[:HAS_EVENT]-(s) RETURN s.create_time }) AS began

// exported_version_counts
// a row for each artifact that had been saved by a time: its key, and how many versions it had
MATCH (v:@ArtifactVersion {scope: $scope}) WHERE v.id IS NOT NULL AND v.create_time <= $at
RETURN v.session_id AS session_id, v.name AS name, max(v.version) + 1 AS versions
