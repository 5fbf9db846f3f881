"""Values of botocore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "botocore"
SETUP = """
import os

os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

import boto3
import botocore.config
import botocore.exceptions
import botocore.session
"""
VALUES = [
    Value(
        cls="botocore.client.BaseClient",
        make="boto3.client('s3', region_name='eu-west-1', aws_access_key_id='a', aws_secret_access_key='b')",
        check="x.meta.region_name == 'eu-west-1'",
        keeps="reported",
        note="its connections are open only in the process that made them",
    ),
    Value(
        cls="boto3.session.Session",
        make="boto3.Session(region_name='eu-west-1')",
        check="x.client('s3', aws_access_key_id='a', aws_secret_access_key='b').meta.region_name == 'eu-west-1'",
        keeps="exact",
    ),
    Value(
        cls="botocore.config.Config",
        make="botocore.config.Config(retries={'max_attempts': 2})",
        check="x.retries == {'max_attempts': 2}",
        keeps="exact",
    ),
    Value(
        cls="botocore.exceptions.ClientError",
        make="botocore.exceptions.ClientError({'Error': {'Code': '404', 'Message': 'm'}}, 'Get')",
        check="x.response['Error']['Code'] == '404' and x.operation_name == 'Get'",
        keeps="equal",
        note="its traceback is gone",
    ),
]
