// schema_state @schema
// one row, or none in a database that was never migrated: the Meta node
MATCH (m:@Meta {key: 'schema'}) RETURN m

// hold_schema @schema
// nothing; until its transaction ends no other process migrates; the graph gets the secret that its tombstones are made with
MERGE (m:@Meta {key: 'schema'}) ON CREATE SET m.version = 0, m.tombstone_key = randomUUID()
SET m.lock = 0

// labels_in_use @schema
// a row for each label of ours that nodes carry
CALL db.labels() YIELD label WHERE label IN $labels RETURN label

// foreign_labels @schema
// a row for each label of ours that somebody else's nodes carry
MATCH (n:@App) WHERE n.app_name IS NULL RETURN '@App' AS label LIMIT 1
UNION ALL MATCH (n:@User) WHERE n.scope IS NULL RETURN '@User' AS label LIMIT 1
UNION ALL MATCH (n:@Session) WHERE n.scope IS NULL RETURN '@Session' AS label LIMIT 1
UNION ALL MATCH (n:@Event) WHERE n.scope IS NULL RETURN '@Event' AS label LIMIT 1
UNION ALL MATCH (n:@Memory) WHERE n.scope IS NULL RETURN '@Memory' AS label LIMIT 1
UNION ALL MATCH (n:@Entity) WHERE n.scope IS NULL RETURN '@Entity' AS label LIMIT 1
UNION ALL MATCH (n:@Fact) WHERE n.scope IS NULL RETURN '@Fact' AS label LIMIT 1
UNION ALL MATCH (n:@Revision) WHERE n.scope IS NULL RETURN '@Revision' AS label LIMIT 1
UNION ALL MATCH (n:@Ingest) WHERE n.scope IS NULL RETURN '@Ingest' AS label LIMIT 1
UNION ALL MATCH (n:@Tombstone) WHERE n.scope IS NULL RETURN '@Tombstone' AS label LIMIT 1
UNION ALL MATCH (n:@Artifact) WHERE n.scope IS NULL RETURN '@Artifact' AS label LIMIT 1
UNION ALL MATCH (n:@ArtifactVersion) WHERE n.scope IS NULL RETURN '@ArtifactVersion' AS label LIMIT 1
UNION ALL MATCH (n:@Meta) WHERE coalesce(n.key, '') <> 'schema' RETURN '@Meta' AS label LIMIT 1
UNION ALL MATCH (n:@Migration) WHERE n.version IS NULL RETURN '@Migration' AS label LIMIT 1

// record_migration @schema
// nothing; a graph whose schema is not the one before keeps its version
MATCH (m:@Meta {key: 'schema'}) WHERE m.version IN [0, $version - 1]
SET m.version = $version, m.checksum = $checksum
MERGE (r:@Migration {version: $version}) ON CREATE SET r.name = $name, r.applied_at = datetime(), r.checksum = $checksum

// create_names @schema
// nothing; the server knows the names that statements use before any node has them: a statement with a name that it does not know
// would be planned again once the name came up
CALL () { UNWIND $labels AS name CALL db.createLabel(name) }
CALL () { UNWIND $types AS name CALL db.createRelationshipType(name) }
CALL () { UNWIND $keys AS name CALL db.createProperty(name) }

// indexes @schema
// a row for each index of these names: what it is, its state, the numbers per vector, and what drops it
SHOW INDEXES YIELD name, type, state, labelsOrTypes, properties, options, owningConstraint
WHERE name IN $names
RETURN name, type, state, labelsOrTypes[0] AS label, properties, owningConstraint IS NOT NULL AS is_constraint,
       options.indexConfig['vector.dimensions'] AS dimensions,
       'DROP ' + CASE WHEN owningConstraint IS NULL THEN 'INDEX `' ELSE 'CONSTRAINT `' END + replace(name, '`', '``')
       + '` IF EXISTS' AS drop_statement

// record_analyzers @schema
// nothing
MATCH (m:@Meta {key: 'schema'}) SET m.analyzers = $analyzers

// memory_text @schema @template
// nothing; Neo4j tells two full-text indexes of one label apart by the order of their properties, if by nothing else
CREATE FULLTEXT INDEX `{name}` IF NOT EXISTS FOR (n:@Memory) ON EACH [{properties}]
OPTIONS {{indexConfig: {{`fulltext.analyzer`: '{analyzer}', `fulltext.eventually_consistent`: false}}}}

// fill_slot @database
// nothing; the slot's embedder is known from now on, and the first slot filled is the live one, which stays as it is
MATCH (m:@Meta {key: 'schema'})
SET m.lock = 0
WITH m WHERE m.live IS NULL OR m.live <> $slot
SET m['embedder_' + $slot] = $embedder, m['dimensions_' + $slot] = $dimensions, m.live = coalesce(m.live, $slot)

// switch_slot @database
// nothing; from now on searches read the other vectors
MATCH (m:@Meta {key: 'schema'}) SET m.live = $slot

// memory_vectors_SLOT @schema @2026
// nothing
CYPHER 25
CREATE VECTOR INDEX @memory_vector_SLOT IF NOT EXISTS FOR (n:@Memory) ON (n.embedding_SLOT) WITH [n.scope, n.kind, n.open] OPTIONS $options

// entity_vectors_SLOT @schema @2026
// nothing
CYPHER 25
CREATE VECTOR INDEX @entity_vector_SLOT IF NOT EXISTS FOR (n:@Entity) ON (n.embedding_SLOT) WITH [n.scope] OPTIONS $options

// drop_memory_vectors_SLOT @schema @2026
// nothing
DROP INDEX @memory_vector_SLOT IF EXISTS

// drop_entity_vectors_SLOT @schema @2026
// nothing
DROP INDEX @entity_vector_SLOT IF EXISTS
