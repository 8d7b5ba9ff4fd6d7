#!/usr/bin/env bash
# The conformance suite of nodes against HDFS: one NameNode and three DataNodes of Hadoop 3.4.2 in one Java process, through
# WebHDFS. Needs Maven and Java 17 (lab/hadoop.sh); takes half a minute, and the download the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
source lab/hadoop.sh

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
WEFT_TEST_HDFS_CLASS_PATH=$(hadoop_class_path "$folder")
export WEFT_TEST_HDFS_CLASS_PATH
cargo test --package weft-nodes --locked --test it -- --ignored --exact foreign::an_hdfs_folder_conforms --nocapture
