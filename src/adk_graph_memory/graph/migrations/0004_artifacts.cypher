// artifact_key
CREATE CONSTRAINT @artifact_key IF NOT EXISTS FOR (n:@Artifact) REQUIRE (n.scope, n.session_id, n.name) IS UNIQUE

// artifact_version_key
CREATE CONSTRAINT @artifact_version_key IF NOT EXISTS FOR (n:@ArtifactVersion) REQUIRE (n.scope, n.session_id, n.name, n.version) IS UNIQUE

// artifact_version_id
CREATE CONSTRAINT @artifact_version_id IF NOT EXISTS FOR (n:@ArtifactVersion) REQUIRE (n.scope, n.id) IS UNIQUE
