package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// describeDescription names what a REPLY to RESOLVE says about the description
// that it holds: its hash, and what a request that was encoded by it says.
func describeDescription(r received) error {
	payload, _ := r["payload"].([]byte)
	value, err := decodeMsgpack(payload)
	description, ok := value.(object)
	if err != nil || !ok || description["hash"] == nil || description["params"] == nil {
		return nil
	}
	check, err := descriptionCheck(description["hash"])
	r["hash"], r["description_check"] = description["hash"], check
	return err
}

// descriptionCheck is what a request says that was encoded by a description of
// this hash.
func descriptionCheck(hash any) (uint64, error) {
	bytes, err := hex.DecodeString(fmt.Sprint(hash))
	if err != nil || len(bytes) != 32 {
		return 0, fmt.Errorf("the hash %v of a description is not of 64 hexadecimal digits", hash)
	}
	return uint64(max(binary.LittleEndian.Uint32(bytes), 1)), nil
}
