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

// describe sets the hashes that descriptions state from now on, by function, and the
// checks of requests that were encoded by them: $check.NAME.
func (s *session) describe(value any, _ object) error {
	members, ok := value.(object)
	if !ok {
		return fmt.Errorf("describe needs an object, not %v", value)
	}
	for name, hash := range members {
		resolved, err := s.vars.resolve(hash)
		if err != nil {
			return err
		}
		check, err := descriptionCheck(resolved)
		if err != nil {
			return err
		}
		s.hashes[name] = resolved
		s.vars.set("check."+name, check)
	}
	return nil
}

// described is a function's description with the hash that it has now, if any.
func (s *session) described(name string, description object) object {
	stated := without(description, "hash")
	if hash, ok := s.hashes[name]; ok {
		stated["hash"] = hash
	}
	return stated
}
