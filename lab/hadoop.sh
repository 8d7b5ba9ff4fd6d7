# Sourced by the scripts beside it: `hadoop_class_path FOLDER` prints a Java class path with Hadoop 3.4.2, by Maven. Needs Maven and
# Java 17 (apt-get install maven openjdk-17-jdk-headless); takes some 150 MB from Maven Central the first time.
hadoop_class_path() {
    local dependencies
    dependency() { echo "<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version></dependency>"; }
    dependencies="$(dependency org.apache.hadoop hadoop-minicluster 3.4.2)$(dependency junit junit 4.13.2)"
    # Java has these no more.
    dependencies+="$(dependency javax.xml.bind jaxb-api 2.3.1)$(dependency org.glassfish.jaxb jaxb-runtime 2.3.9)"
    cat > "$1/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>weft</groupId><artifactId>hdfs-test</artifactId><version>1</version>
<dependencies>$dependencies</dependencies></project>
XML
    mvn --quiet --batch-mode --file "$1/pom.xml" dependency:build-classpath "-Dmdep.outputFile=$1/class-path" >&2
    cat "$1/class-path"
}
