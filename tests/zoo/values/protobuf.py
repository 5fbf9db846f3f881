"""Values of google.protobuf."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "google.protobuf"
SETUP = """
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, struct_pb2, timestamp_pb2, wrappers_pb2

def made():
    # A message type made at run time, as notebooks without a compiler do.
    file = descriptor_pb2.FileDescriptorProto(name="zoo.proto", package="zoo", syntax="proto3")
    message = file.message_type.add(name="Point")
    message.field.add(name="x", number=1, type=5, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("zoo.Point"))
"""
VALUES = [
    Value(
        cls="google.protobuf.timestamp_pb2.Timestamp",
        make="timestamp_pb2.Timestamp(seconds=3, nanos=5)",
        check="x.seconds == 3 and x.ToNanoseconds() == 3000000005",
        keeps="exact",
    ),
    Value(
        cls="google.protobuf.struct_pb2.Struct",
        make="struct = struct_pb2.Struct()\nstruct.update({'a': [1, {'b': None}]})\nstruct",
        check="x['a'][1]['b'] is None and [x.update({'c': 2}), x['c']][1] == 2",
        keeps="exact",
    ),
    Value(
        cls="google.protobuf.descriptor_pb2.FileDescriptorProto",
        make="descriptor_pb2.FileDescriptorProto(name='f', dependency=['d'])",
        check="x.name == 'f' and list(x.dependency) == ['d']",
        keeps="exact",
    ),
    Value(
        cls="google.protobuf.duration_pb2.Duration",
        make="duration_pb2.Duration(seconds=1)",
        check="x.ToSeconds() == 1",
        keeps="exact",
    ),
    Value(
        cls="google.protobuf.wrappers_pb2.StringValue",
        make="wrappers_pb2.StringValue(value='a')",
        check="x.value == 'a'",
        keeps="exact",
    ),
    Value(
        cls="google.protobuf.message.Message",
        make="made()(x=3)",
        check="x.x == 3",
        keeps="reported",
        note="its class was made at run time",
    ),
]
