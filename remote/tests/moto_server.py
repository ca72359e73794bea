"""Starts moto's server on a free port with a bucket named "bucket", prints the port, and ends when
stdin is closed."""

import sys

import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
port = server.get_host_and_port()[1]
client = boto3.client(
    "s3",
    endpoint_url=f"http://127.0.0.1:{port}",
    region_name="us-east-1",
    aws_access_key_id="test",
    aws_secret_access_key="test-secret-key",
)
client.create_bucket(Bucket="bucket")
print(port, flush=True)
sys.stdin.read()
server.stop()
