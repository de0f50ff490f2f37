// known_contents
// a row for each of the contents that a version has, whoever's it is
UNWIND $contents AS content
MATCH (v:@ArtifactVersion {scope: content.scope, id: content.id})
RETURN v.scope AS scope, v.id AS id
