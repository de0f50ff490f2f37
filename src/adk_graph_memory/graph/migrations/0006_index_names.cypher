// indexes_of_our_labels
SHOW INDEXES YIELD name, type, labelsOrTypes, properties, owningConstraint
WHERE labelsOrTypes[0] IN ['@App', '@User', '@Session', '@Event', '@Memory', '@Entity', '@Fact', '@Revision', '@Ingest',
  '@Tombstone', '@Artifact', '@ArtifactVersion', '@Meta', '@Migration']
RETURN name, type, labelsOrTypes AS labels, properties, owningConstraint IS NOT NULL AS is_constraint,
       'DROP ' + CASE WHEN owningConstraint IS NULL THEN 'INDEX `' ELSE 'CONSTRAINT `' END + replace(name, '`', '``')
       + '` IF EXISTS' AS drop_statement
