"""Reads messages without any of Carillon's files: with the stock client and the schema registered
for the topic.

read.py SERVICE_URL ADMIN_URL TENANT NAMESPACE TOPIC SUBSCRIPTION COUNT prints each message as a
line of JSON.
"""

import base64
import json
import sys
import urllib.request

import pulsar
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory


def registered(admin, tenant, namespace, topic):
    """Returns the message class that the topic's schema describes."""
    with urllib.request.urlopen(f"{admin}/admin/v2/schemas/{tenant}/{namespace}/{topic}/schema", timeout=10) as answer:
        schema = json.load(answer)
    assert schema["type"] == "PROTOBUF_NATIVE", schema["type"]
    data = json.loads(schema["data"])
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(data["fileDescriptorSet"]))
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(data["rootMessageTypeName"]))


def main(service, admin, tenant, namespace, topic, subscription, count):
    message_class = registered(admin, tenant, namespace, topic)
    client = pulsar.Client(service, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(
        f"persistent://{tenant}/{namespace}/{topic}",
        subscription,
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
    )
    for _ in range(int(count)):
        message = consumer.receive(timeout_millis=20_000)
        decoded = json_format.MessageToDict(message_class.FromString(message.data()), preserving_proto_field_name=True)
        print(json.dumps({"message": decoded, "properties": message.properties(), "key": message.partition_key()}))
        consumer.acknowledge(message)
    client.close()


main(*sys.argv[1:])
