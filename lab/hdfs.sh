#!/usr/bin/env bash
# The conformance suite of nodes against HDFS: one NameNode and three DataNodes of Hadoop 3.4.2 in one Java process, through
# WebHDFS. Needs Maven and Java 17 (apt-get install maven openjdk-17-jdk-headless); takes some 150 MB from Maven Central the
# first time and half a minute afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
dependency() { echo "<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version></dependency>"; }
cat > "$folder/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>weft</groupId><artifactId>hdfs-test</artifactId><version>1</version>
<dependencies>
$(dependency org.apache.hadoop hadoop-minicluster 3.4.2)
$(dependency junit junit 4.13.2)
$(dependency javax.xml.bind jaxb-api 2.3.1)
$(dependency org.glassfish.jaxb jaxb-runtime 2.3.9)
</dependencies></project>
XML
mvn --quiet --batch-mode --file "$folder/pom.xml" dependency:build-classpath "-Dmdep.outputFile=$folder/class-path"
WEFT_TEST_HDFS_CLASS_PATH=$(cat "$folder/class-path") \
    cargo test --package weft-nodes --locked --test it -- --ignored --exact foreign::an_hdfs_folder_conforms --nocapture
