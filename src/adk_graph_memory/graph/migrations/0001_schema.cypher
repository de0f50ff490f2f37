// meta_key
CREATE CONSTRAINT @meta_key IF NOT EXISTS FOR (n:@Meta) REQUIRE n.key IS UNIQUE

// migration_key
CREATE CONSTRAINT @migration_key IF NOT EXISTS FOR (n:@Migration) REQUIRE n.version IS UNIQUE

// app_key
CREATE CONSTRAINT @app_key IF NOT EXISTS FOR (n:@App) REQUIRE n.app_name IS UNIQUE

// user_key
CREATE CONSTRAINT @user_key IF NOT EXISTS FOR (n:@User) REQUIRE n.scope IS UNIQUE

// user_app
CREATE INDEX @user_app IF NOT EXISTS FOR (n:@User) ON (n.app_name)

// session_key
CREATE CONSTRAINT @session_key IF NOT EXISTS FOR (n:@Session) REQUIRE (n.scope, n.id) IS UNIQUE

// session_activity
CREATE INDEX @session_activity IF NOT EXISTS FOR (n:@Session) ON (n.scope, n.last_update_time)

// session_app_activity
CREATE INDEX @session_app_activity IF NOT EXISTS FOR (n:@Session) ON (n.app_name, n.last_update_time)

// event_key
CREATE CONSTRAINT @event_key IF NOT EXISTS FOR (n:@Event) REQUIRE (n.scope, n.session_uid, n.id) IS UNIQUE

// event_order
CREATE INDEX @event_order IF NOT EXISTS FOR (n:@Event) ON (n.scope, n.session_uid, n.seq)

// memory_key
CREATE CONSTRAINT @memory_key IF NOT EXISTS FOR (n:@Memory) REQUIRE (n.scope, n.memory_id) IS UNIQUE

// event_memory_key
CREATE CONSTRAINT @event_memory_key IF NOT EXISTS FOR (n:@Event) REQUIRE (n.scope, n.memory_id) IS UNIQUE

// memory_unembedded
CREATE INDEX @memory_unembedded IF NOT EXISTS FOR (n:@Memory) ON (n.scope, n.unembedded)

// memory_proposal
CREATE INDEX @memory_proposal IF NOT EXISTS FOR (n:@Memory) ON (n.scope, n.proposal_id)

// entity_key
CREATE CONSTRAINT @entity_key IF NOT EXISTS FOR (n:@Entity) REQUIRE (n.scope, n.key) IS UNIQUE

// fact_key
CREATE CONSTRAINT @fact_key IF NOT EXISTS FOR (n:@Fact) REQUIRE (n.scope, n.id) IS UNIQUE

// fact_signature
CREATE INDEX @fact_signature IF NOT EXISTS FOR (n:@Fact) ON (n.scope, n.signature)

// revision_key
CREATE CONSTRAINT @revision_key IF NOT EXISTS FOR (n:@Revision) REQUIRE (n.scope, n.fact_id, n.n) IS UNIQUE

// revision_signature
CREATE INDEX @revision_signature IF NOT EXISTS FOR (n:@Revision) ON (n.scope, n.signature)

// ingest_key
CREATE CONSTRAINT @ingest_key IF NOT EXISTS FOR (n:@Ingest) REQUIRE (n.scope, n.id) IS UNIQUE

// ingest_state
CREATE INDEX @ingest_state IF NOT EXISTS FOR (n:@Ingest) ON (n.scope, n.state)

// ingest_waiting
CREATE INDEX @ingest_waiting IF NOT EXISTS FOR (n:@Ingest) ON (n.state)

// tombstone_key
CREATE CONSTRAINT @tombstone_key IF NOT EXISTS FOR (n:@Tombstone) REQUIRE (n.scope, n.key) IS UNIQUE

// artifact_key
CREATE CONSTRAINT @artifact_key IF NOT EXISTS FOR (n:@Artifact) REQUIRE (n.scope, n.session_id, n.name) IS UNIQUE

// artifact_version_key
CREATE CONSTRAINT @artifact_version_key IF NOT EXISTS FOR (n:@ArtifactVersion) REQUIRE (n.scope, n.session_id, n.name, n.version) IS UNIQUE

// artifact_version_id
CREATE CONSTRAINT @artifact_version_id IF NOT EXISTS FOR (n:@ArtifactVersion) REQUIRE (n.scope, n.id) IS UNIQUE

// entity_text
CREATE FULLTEXT INDEX @entity_text IF NOT EXISTS FOR (n:@Entity) ON EACH [n.name, n.aliases, n.scope]
OPTIONS {indexConfig: {`fulltext.analyzer`: '@analyzer', `fulltext.eventually_consistent`: false}}
