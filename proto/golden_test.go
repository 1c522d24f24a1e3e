package proto_test

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

var update = flag.Bool("update", false, "write the golden files anew")

var task = &carillonv1.Task{
	TimerId:  1 << 60,
	DueMs:    1_772_323_200_000,
	Series:   77,
	RunAtMs:  1_772_323_201_500,
	Bucket:   3,
	AppId:    12,
	Version:  4,
	Epoch:    2,
	Cause:    1,
	State:    2,
	Attempt:  1,
	Rev:      5,
	LateMs:   12,
	Priority: 2,
	Path:     1,

	WaitingSinceMs: 1_772_323_200_500,
	WaitedFor:      3,
}

// samples has one message of each type, with every field set.
var samples = map[protoreflect.Name]proto.Message{
	"Slice": &carillonv1.Slice{Minute: 29_538_720, Bucket: 3, Token: 9},
	"Task":  task,
	"DeadTask": &carillonv1.DeadTask{
		Task: task, App: "shop", Reason: "attempts", Attempts: 3, StatusCode: 503,
		LastError: "503 Service Unavailable", Raw: []byte{0xff, 0x00},
	},
	"AuditEntry": &carillonv1.AuditEntry{
		Seq: 1234, AtMs: 1_772_323_200_000, App: "shop", ActorKind: "person", ActorId: "p-1",
		ActorName: "Ada", Address: "10.0.0.7", RequestId: "r-1", JobId: 1 << 60, Action: "update",
		Kind: "timer", Resource: "42", Name: "close the day", BeforeVersion: 1, AfterVersion: 2,
	},
	"TimerChanged": &carillonv1.TimerChanged{TimerId: 1 << 60, Seq: 1234},
	"DeliverRequest": &carillonv1.DeliverRequest{
		FireId:          "42-1772323200000-77",
		TimerId:         42,
		DueMs:           1_772_323_200_000,
		Series:          77,
		Attempt:         2,
		App:             "shop",
		TimerName:       "close the day",
		Cause:           "schedule",
		Labels:          map[string]string{"team": "till"},
		Body:            []byte{0xff, 0x00},
		CompletionToken: "token",
	},
	"DeliverResponse": &carillonv1.DeliverResponse{
		Accepted:         true,
		CompleteWithinMs: 600_000,
		Message:          "accepted",
	},
	"TargetOutcome": &carillonv1.TargetOutcome{
		Index:      1,
		Kind:       "failed",
		Attempts:   3,
		StatusCode: 503,
		Failure:    "status",
	},
	"Outcome": &carillonv1.Outcome{
		TimerId:    1 << 60,
		DueMs:      1_772_323_200_000,
		Series:     77,
		App:        "shop",
		Kind:       "failed",
		Reason:     "attempts",
		FinishedMs: 1_772_323_205_000,
		Attempts:   3,
		LatenessMs: 12,
		StatusCode: 503,
		DurationMs: 48,
		UntilMs:    1_772_323_200_000,
		Count:      1,
		Failure:    "status",
		TimerName:  "send-invoices",
		Targets: []*carillonv1.TargetOutcome{
			{
				Kind:       "delivered",
				Attempts:   1,
				StatusCode: 204,
			},
			{Index: 1, Kind: "failed", Attempts: 3, StatusCode: 503, Failure: "status"},
		},
	},
}

// TestGolden checks the wire format against earlier releases in both directions. A golden file
// changes only when a field is added, and then only grows.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, sample := range samples {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", string(name)+".hex")
			wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(sample)
			if err != nil {
				t.Fatalf("encoding: %v", err)
			}
			if *update {
				if err := os.WriteFile(path, []byte(hex.Dump(wire)), 0o644); err != nil {
					t.Fatalf("writing the golden file: %v", err)
				}
			}
			golden, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("reading the golden file (go test -update writes it): %v", err)
			}
			if got := hex.Dump(wire); got != string(golden) {
				t.Fatalf("the wire has changed\nwant\n%sgot\n%s", golden, got)
			}
			back := sample.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(wire, back); err != nil || !proto.Equal(sample, back) {
				t.Fatalf("read back: %v, %v", back, err)
			}
		})
	}
}

// TestSamplesAreComplete fails for a message without a sample, or a field without a value.
func TestSamplesAreComplete(t *testing.T) {
	t.Parallel()
	protoregistry.GlobalFiles.RangeFilesByPackage(
		"carillon.v1",
		func(file protoreflect.FileDescriptor) bool {
			for i := range file.Messages().Len() {
				m := file.Messages().Get(i)
				sample, ok := samples[m.Name()]
				if !ok {
					t.Errorf("message %s has no sample", m.Name())
					continue
				}
				for j := range m.Fields().Len() {
					if f := m.Fields().Get(j); !sample.ProtoReflect().Has(f) {
						t.Errorf("the sample of %s has no %s", m.Name(), f.Name())
					}
				}
			}
			return true
		},
	)
}
