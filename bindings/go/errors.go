// SPDX-License-Identifier: Apache-2.0

package moert

import (
	"fmt"
	"strings"

	"moert/internal/capi"
)

// Error makes errors.Is(err, moert.StatusNotFound) work.
func (s Status) Error() string { return capi.MoertStatusName(int32(s)) }

// Error is a failed call: its status and the text that explains it.
type Error struct {
	Status Status
	// NativeCode is errno or a driver's code, as the status says.
	NativeCode int64
	// Corruption says what is wrong with bytes that were refused as StatusCorruptData.
	Corruption Corruption
	// Message names the value that was wrong and what is accepted.
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("moert: %v: %s", e.Status, e.Message) }

// Unwrap gives the status.
func (e *Error) Unwrap() error { return e.Status }

func wrap(err error) error {
	f, ok := err.(*capi.Failure)
	if !ok {
		return err
	}
	e := &Error{Status: Status(f.Code), NativeCode: f.NativeCode, Message: f.Message}
	if e.Status == StatusCorruptData {
		e.Corruption = Corruption(f.NativeCode)
	}
	return e
}

func invalidArgument(format string, args ...any) error {
	return &Error{Status: StatusInvalidArgument, Message: fmt.Sprintf(format, args...)}
}

// ErrClosed is the result of using something after its Close, or nil.
var ErrClosed error = &Error{Status: StatusInvalidArgument, Message: "use after Close"}

// Must gives the value, or panics with the error: for programs that end at any failure.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// checkStrings refuses what a C string cannot hold.
func checkStrings(values ...string) error {
	for _, s := range values {
		if strings.IndexByte(s, 0) >= 0 {
			return invalidArgument("%q contains a NUL character", s)
		}
	}
	return nil
}
