// node_at_place @fragment
// the user's node at a place: of a label, with the values of its key
CALL (place) {
  WITH place WHERE place.label = 'Session'
  MATCH (node:@Session {scope: $scope, id: place.key[0]})
  RETURN node
  UNION ALL
  WITH place WHERE place.label = 'Event'
  MATCH (node:@Event {scope: $scope, session_uid: place.key[0], id: place.key[1]})
  RETURN node
  UNION ALL
  WITH place WHERE place.label = 'Entity'
  MATCH (node:@Entity {scope: $scope, key: place.key[0]})
  RETURN node
  UNION ALL
  WITH place WHERE place.label = 'Fact'
  MATCH (node:@Fact {scope: $scope, id: place.key[0]})
  RETURN node
  UNION ALL
  WITH place WHERE place.label = 'Revision'
  MATCH (node:@Revision {scope: $scope, fact_id: place.key[0], n: place.key[1]})
  RETURN node
  UNION ALL
  WITH place WHERE place.label = 'Ingest'
  MATCH (node:@Ingest {scope: $scope, id: place.key[0]})
  RETURN node
  UNION ALL
  WITH place WHERE place.label = 'Tombstone'
  MATCH (node:@Tombstone {scope: $scope, key: place.key[0]})
  RETURN node
  UNION ALL
  WITH place WHERE place.label = 'Artifact'
  MATCH (node:@Artifact {scope: $scope, session_id: place.key[0], name: place.key[1]})
  RETURN node
  UNION ALL
  WITH place WHERE place.label = 'ArtifactVersion'
  MATCH (node:@ArtifactVersion {scope: $scope, session_id: place.key[0], name: place.key[1], version: place.key[2]})
  RETURN node
  UNION ALL
  WITH place WHERE place.label = 'User'
  MATCH (node:@User {scope: $scope})
  RETURN node
}

// has_nodes @fragment
// whether the graph has a node of the user beside the user's own and tombstones
EXISTS { MATCH (s:@Session {scope: $scope}) WHERE s.id IS NOT NULL }
OR EXISTS { MATCH (e:@Event {scope: $scope}) WHERE e.session_uid IS NOT NULL }
OR EXISTS { MATCH (f:@Fact {scope: $scope}) WHERE f.id IS NOT NULL }
OR EXISTS { MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL }
OR EXISTS { MATCH (i:@Ingest {scope: $scope}) WHERE i.id IS NOT NULL }
OR EXISTS { MATCH (a:@Artifact {scope: $scope}) WHERE a.session_id IS NOT NULL }

// begin_restore @operator
// one row: whether the graph is empty but for what this backup brought; then it gets the key of the backup's tombstones
// of several users: a backup is restored into a graph that has none
MATCH (m:@Meta {key: 'schema'})
SET m.lock = 0
WITH m, NOT EXISTS { MATCH (u:@User) WHERE u.scope IS NOT NULL AND coalesce(u.import_id, '') <> $id } AND (
  m.restore_id = $id OR (
    m.restore_id IS NULL
    AND NOT EXISTS { MATCH (a:@App) WHERE a.app_name IS NOT NULL }
    AND NOT EXISTS { MATCH (u:@User) WHERE u.scope IS NOT NULL }
    AND NOT EXISTS { MATCH (grave:@Tombstone) WHERE grave.scope IS NOT NULL AND grave.key IS NOT NULL })
) AS is_empty
FOREACH (_ IN CASE WHEN is_empty THEN [1] ELSE [] END | SET m.tombstone_key = $key, m.restore_id = $id, m.restoring = true)
RETURN coalesce(is_empty, false) AS is_empty

// finish_restore @database
// nothing; all of the backup is there
MATCH (m:@Meta {key: 'schema'})
SET m.restoring = null

// restore_tombstones @operator
// nothing; the tombstones of users who have gone, as a backup has them
// of several users: a backup keeps what was forgotten from coming back, whoever comes back
UNWIND $rows AS row
MERGE (grave:@Tombstone {scope: row.scope, key: row.key})
ON CREATE SET grave.at = row.at

// import_app @operator
// one row: whether the graph did not have the app; what it has stays as it is
// of several users: an import writes what it is told of an app
OPTIONAL MATCH (known:@App {app_name: $app_name})
MERGE (a:@App {app_name: $app_name})
ON CREATE SET a += $properties
RETURN known IS NULL AS is_new

// import_user
// one row: whether the user is this file's from now on ('new'), has been ('open'), is imported to the end ('done'), or has
// something here that is not of this file ('taken'); and whether something of the user was forgotten here
MERGE (u:@User {scope: $scope})
ON CREATE SET u.app_name = $app_name, u.user_id = $user_id, u.state = []
SET u.lock = 0
WITH u, CASE
  WHEN u.import_id = $id AND u.import_open THEN 'open'
  WHEN u.import_id = $id THEN 'done'
  WHEN u.state <> [] OR
// include has_nodes
  THEN 'taken'
  ELSE 'new' END AS outcome
FOREACH (_ IN CASE outcome WHEN 'new' THEN [1] ELSE [] END |
  SET u += $properties, u.scope = $scope, u.import_id = $id, u.import_open = true)
RETURN outcome, EXISTS { MATCH (grave:@Tombstone {scope: $scope}) WHERE grave.key IS NOT NULL } AS has_tombstones

// import_nodes
// one row: how many of these nodes the graph did not have; those that it has stay as they are
MATCH (u:@User {scope: $scope})
SET u.lock = 0
WITH u
UNWIND $rows AS row
WITH row, row.place AS place
OPTIONAL
// include node_at_place
CALL (row, node) {
  WITH row, node WHERE node IS NULL
  CREATE (new:$(row.labels) {scope: $scope})
  SET new += row.properties, new.scope = $scope
  WITH new, row WHERE row.vector IS NOT NULL
  CALL db.create.setNodeVectorProperty(new, $slot, row.vector)
}
RETURN sum(CASE WHEN node IS NULL THEN 1 ELSE 0 END) AS new

// import_edges
// one row: the numbers of those of these relationships whose nodes there are, and how many of them the graph did not have
MATCH (u:@User {scope: $scope})
SET u.lock = 0
WITH u
UNWIND $rows AS row
WITH row, row.from AS place
// include node_at_place
WITH row, node AS start, row.to AS place
// include node_at_place
WITH row, start, node AS end
OPTIONAL MATCH (start)-[known]->(end)
WHERE type(known) = row.type AND (row.properties.key IS NULL OR known.key = row.properties.key)
CALL (row, start, end, known) {
  WITH row, start, end, known WHERE known IS NULL
  CREATE (start)-[new:$(row.type)]->(end)
  SET new += row.properties
}
RETURN collect(row.number) AS numbers, sum(CASE WHEN known IS NULL THEN 1 ELSE 0 END) AS new

// import_entombed
// nothing; what was forgotten where the file comes from is refused here too
UNWIND $rows AS row
MERGE (grave:@Tombstone {scope: $scope, key: row.key})
ON CREATE SET grave.at = row.at

// import_refused
// nothing; turns that were forgotten here are taken for memory once more, so that they can be erased with all that rests on them
UNWIND $rows AS row
MATCH (e:@Event {scope: $scope, session_uid: row.session_uid, id: row.id})
SET e.memory_id = row.memory_id

// import_finished
// nothing; all of the user's rows are there
MATCH (u:@User {scope: $scope, import_id: $id})
SET u.import_open = null

// import_withdrawn
// nothing; the nodes at these places are deleted again
MATCH (u:@User {scope: $scope})
SET u.lock = 0
WITH u
UNWIND $rows AS place
// include node_at_place
DETACH DELETE node

// import_forsaken
// nothing; the user goes whose nodes are withdrawn, unless somebody wrote to the user meanwhile
MATCH (u:@User {scope: $scope, import_id: $id})
SET u.lock = 0, u.import_id = null, u.import_open = null
WITH u, CASE WHEN
// include has_nodes
  THEN 'taken' END AS outcome WHERE outcome IS NULL
DETACH DELETE u
