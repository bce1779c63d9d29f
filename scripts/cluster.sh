#!/usr/bin/env bash
# A standalone Spark cluster from the PySpark that is installed with Viewlet. Everything runs in the foreground.
#
#   scripts/cluster.sh master                       on one host: waits for workers at port 7077
#   scripts/cluster.sh worker spark://first:7077    on every host: offers its cores and memory
#   scripts/cluster.sh here 2                       a master and two workers of one core each on this host
#
# HOST and PORT (of the master, 7077), CORES and MEMORY (of a worker) may be set. The Python that runs the executors
# is that of this checkout, PYTHON=..., and must be at the same path on every host.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-$PWD/.venv/bin/python}
SPARK_HOME=$("$python" -c 'import pyspark; print(pyspark.__path__[0])')
export SPARK_HOME PYSPARK_PYTHON=$python SPARK_NO_DAEMONIZE=1
host=${HOST:-$(hostname)}
port=${PORT:-7077}

master() { exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master --host "$host" --port "$port" --webui-port "${WEB_PORT:-8080}"; }

worker() { # worker MASTER: files of applications go to a folder of its own
  local work=${WORK:-${TMPDIR:-/tmp}/viewlet-cluster-$$}
  exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker "$1" --work-dir "$work" --webui-port "${WEB_PORT:-8081}" \
    ${CORES:+--cores "$CORES"} ${MEMORY:+--memory "$MEMORY"}
}

here() { # here WORKERS: until it is interrupted
  local work
  work=$(mktemp -d)
  trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT
  trap exit INT TERM
  (WEB_PORT=0 master) &
  for number in $(seq "$1"); do
    (WEB_PORT=0 CORES=${CORES:-1} MEMORY=${MEMORY:-2g} WORK=$work/$number worker "spark://$host:$port") &
  done
  echo "cluster: viewlet run PIPELINE --master spark://$host:$port"
  wait
}

case ${1:-} in
  master) master ;;
  worker) worker "${2:?the address of the master, such as spark://first:7077}" ;;
  here) here "${2:-2}" ;;
  *) sed -n 's/^# \{0,1\}//p' "$0" | tail -n +2 && exit 2 ;;
esac
