// save_artifact
// one row: the version's number; the same id again is the same version
// include ensure_user
MERGE (a:@Artifact {scope: $scope, session_id: $session_id, name: $name})
ON CREATE SET a.versions = 0
SET a.lock = 0
WITH u, a
OPTIONAL MATCH (known:@ArtifactVersion {scope: $scope, id: $version.id})
OPTIONAL MATCH (s:@Session {scope: $scope, id: $session_id})
CALL (u, a, known, s) {
  WITH * WHERE known IS NULL
  CREATE (v:@ArtifactVersion {scope: $scope, session_id: $session_id, name: $name, version: a.versions})
  SET v += $version, a.versions = a.versions + 1
  CREATE (a)-[:HAS_VERSION]->(v)
  WITH v, a, coalesce(s, u) AS owner
  MERGE (owner)-[:HAS_ARTIFACT]->(a)
  RETURN v.version AS version
  UNION
  WITH * WHERE known IS NOT NULL
  RETURN known.version AS version
}
RETURN version

// artifact_version
// one row, or none: a version, the latest if $version is null
MATCH (a:@Artifact {scope: $scope, session_id: $session_id, name: $name})
MATCH (v:@ArtifactVersion {scope: $scope, session_id: $session_id, name: $name, version: coalesce($version, a.versions - 1)})
WHERE
// include version_stands
RETURN v {.version, .id, .part, .store, .mime_type, .metadata, .create_time, content: CASE WHEN $with_content THEN v.content END} AS version

// artifact_versions
// a row a version, the first first, without content
MATCH (v:@ArtifactVersion {scope: $scope, session_id: $session_id, name: $name})
WHERE v.version >= 0 AND
// include version_stands
RETURN v {.version, .id, .part, .store, .mime_type, .metadata, .create_time} AS version ORDER BY v.version

// artifact_names
// a row an artifact of the user's own, and of the session
MATCH (a:@Artifact {scope: $scope})
WHERE a.session_id IN ['', $session_id] AND a.name IS NOT NULL AND ($retention.artifact_ttl IS NULL OR EXISTS {
  MATCH (a)-[:HAS_VERSION]->(v) WHERE
// include version_stands
})
RETURN a.name AS name, a.session_id AS session_id

// user_artifacts
// a row for each name under which the user has an artifact, or a version without one; expired ones too
CALL () {
  MATCH (a:@Artifact {scope: $scope}) WHERE a.session_id IS NOT NULL AND a.name IS NOT NULL
  RETURN a.session_id AS session_id, a.name AS name
  UNION
  MATCH (v:@ArtifactVersion {scope: $scope}) WHERE v.session_id IS NOT NULL AND v.name IS NOT NULL AND v.version IS NOT NULL
  RETURN v.session_id AS session_id, v.name AS name
}
RETURN session_id, name

// latest_artifact_versions
// a row for the latest version of each of the user's artifacts: of all, or of the user's own and the session's, without content
MATCH (a:@Artifact {scope: $scope})
WHERE a.session_id IS NOT NULL AND a.name IS NOT NULL AND ($session_id IS NULL OR a.session_id IN ['', $session_id])
MATCH (v:@ArtifactVersion {scope: $scope, session_id: a.session_id, name: a.name, version: a.versions - 1})
WHERE
// include version_stands
RETURN a.name AS name, a.session_id AS session_id, v {.version, .id, .part, .store, .mime_type, .metadata, .create_time} AS version
ORDER BY session_id, name

// delete_artifact
// a row for each version whose content lies elsewhere: its id, and where
OPTIONAL MATCH (a:@Artifact {scope: $scope, session_id: $session_id, name: $name})
SET a.lock = 0
WITH a
OPTIONAL MATCH (v:@ArtifactVersion {scope: $scope, session_id: $session_id, name: $name}) WHERE v.version IS NOT NULL
WITH a, collect(v) AS versions
WITH a, versions, [v IN versions WHERE v.store IS NOT NULL | {id: v.id, store: v.store}] AS contents
FOREACH (v IN versions | DETACH DELETE v)
DETACH DELETE a
WITH contents
UNWIND contents AS content
RETURN content.id AS id, content.store AS store
