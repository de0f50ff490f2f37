// known_contents @database
// a row for each of the contents that a version has, whoever's it is
UNWIND $contents AS content
MATCH (v:@ArtifactVersion {scope: content.scope, id: content.id})
RETURN v.scope AS scope, v.id AS id

// place_of_contents @database
// one row: the name under which this graph's contents lie in a store
MERGE (m:@Meta {key: 'schema'})
SET m.contents = coalesce(m.contents, randomUUID())
RETURN m.contents AS place
