#!/usr/bin/env bash
# Packages that Spark does not ship, and a broker for tests, from Maven's repositories into the user's cache.
#
#   scripts/spark_jars.sh kafka     the connector to Kafka, and a broker of one node
#   scripts/spark_jars.sh delta     Delta Lake
#
# They are those of the installed PySpark; VERSION=... takes those made for another Spark. Versions of parts may be set
# too: TOKENS (security of the connector), CLIENTS and BROKER (of Kafka), DELTA. Needs mvn.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-$PWD/.venv/bin/python}
version=${VERSION:-$("$python" -c 'import pyspark; print(pyspark.__version__)')}
cache=$("$python" -c 'from viewlet.workloads.tpch import cache_directory; print(cache_directory())')/jars
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v mvn >/dev/null || { echo "spark_jars: Maven is missing (mvn)" >&2; exit 1; }

dependency() { # dependency GROUP ARTIFACT VERSION [alone]: alone, where Spark brings the rest
  echo "<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version>"
  [ "${4:-}" != alone ] || echo "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
  echo "</dependency>"
}

fetch() { # fetch FOLDER DEPENDENCIES: all or nothing
  rm -rf "${work:?}"/*
  echo "<project><modelVersion>4.0.0</modelVersion><groupId>viewlet</groupId><artifactId>jars</artifactId>
    <version>1</version><packaging>pom</packaging><dependencies>$2</dependencies></project>" >"$work/pom.xml"
  mvn --quiet --batch-mode --file "$work/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$work/jars"
  mkdir -p "$cache"
  rm -rf "${cache:?}/$1"
  mv "$work/jars" "$cache/$1"
  echo "spark_jars: $cache/$1"
}

kafka() {
  local spark=org.apache.spark
  fetch kafka "$(dependency $spark spark-sql-kafka-0-10_2.13 "$version" alone
    dependency $spark spark-token-provider-kafka-0-10_2.13 "${TOKENS:-$version}" alone
    dependency org.apache.kafka kafka-clients "${CLIENTS:-3.9.2}" alone
    dependency org.apache.commons commons-pool2 2.13.1 alone)"
  fetch kafka-broker "$(dependency org.apache.kafka kafka_2.13 "${BROKER:-4.1.2}")"
}

delta() {
  local release=${DELTA:-4.4.0}
  fetch delta "$(dependency io.delta "delta-spark_${version%.*}_2.13" "$release" alone
    dependency io.delta delta-storage "$release" alone)"
}

case ${1:-} in
  kafka) kafka ;;
  delta) delta ;;
  *) sed -n 's/^# \{0,1\}//p' "$0" | tail -n +2 && exit 2 ;;
esac
