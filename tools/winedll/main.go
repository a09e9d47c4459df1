// Command winedll writes the one library that Go's programs need and Wine 8
// lacks: bcryptprimitives.dll, from which Go's runtime takes its random numbers.
//
//	winedll PREFIX/drive_c/windows/system32/bcryptprimitives.dll
//
// What it writes contains no code: an export directory whose single entry,
// ProcessPrng, is forwarded to the function of advapi32 that Wine has.
package main

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"os"
)

const (
	libraryName  = "bcryptprimitives.dll"
	functionName = "ProcessPrng"
	forwardedTo  = "advapi32.SystemFunction036"

	imageBase     = 0x180000000
	sectionRVA    = 0x1000
	alignment     = 0x200
	imageSize     = 0x2000
	headerOffset  = 0x40
	directoryNext = 40 // bytes of an export directory
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: winedll FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], library(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "winedll:", err)
		os.Exit(1)
	}
}

// library returns the whole file: headers in the first block, then the section.
func library() []byte {
	exports, bytesUsed := exportSection()
	var file bytes.Buffer
	file.WriteString("MZ")
	file.Write(make([]byte, headerOffset-2-4))
	write(&file, uint32(headerOffset), [4]byte{'P', 'E'})
	write(&file, fileHeader(), optionalHeader(bytesUsed), sectionHeader(len(exports), bytesUsed))
	pad(&file)
	file.Write(exports)
	return file.Bytes()
}

// exportSection returns the section, padded, and how much of it is in use.
func exportSection() (section []byte, used uint32) {
	addresses := uint32(sectionRVA + directoryNext)
	names, ordinals := addresses+4, addresses+8
	strings := ordinals + 2
	function := strings + uint32(len(libraryName)) + 1
	forward := function + uint32(len(functionName)) + 1

	var content bytes.Buffer
	// Characteristics, time, version, then: name, first ordinal, counts, tables.
	write(&content, [3]uint32{}, strings, [3]uint32{1, 1, 1}, [3]uint32{addresses, names, ordinals})
	// An address within the export directory is the name of what it forwards to.
	write(&content, forward, function, uint16(0))
	content.WriteString(libraryName + "\x00" + functionName + "\x00" + forwardedTo + "\x00")
	used = uint32(content.Len())
	pad(&content)
	return content.Bytes(), used
}

func fileHeader() pe.FileHeader {
	return pe.FileHeader{
		Machine:              pe.IMAGE_FILE_MACHINE_AMD64,
		NumberOfSections:     1,
		SizeOfOptionalHeader: uint16(binary.Size(pe.OptionalHeader64{})),
		Characteristics:      pe.IMAGE_FILE_EXECUTABLE_IMAGE | pe.IMAGE_FILE_LARGE_ADDRESS_AWARE | pe.IMAGE_FILE_DLL,
	}
}

func optionalHeader(exportBytes uint32) pe.OptionalHeader64 {
	header := pe.OptionalHeader64{
		Magic: 0x20b, ImageBase: imageBase,
		SectionAlignment: sectionRVA, FileAlignment: alignment,
		MajorOperatingSystemVersion: 6, MajorSubsystemVersion: 6,
		SizeOfImage: imageSize, SizeOfHeaders: alignment,
		Subsystem:          pe.IMAGE_SUBSYSTEM_WINDOWS_CUI,
		SizeOfStackReserve: 0x100000, SizeOfStackCommit: 0x1000,
		SizeOfHeapReserve: 0x100000, SizeOfHeapCommit: 0x1000,
		NumberOfRvaAndSizes: 16,
	}
	header.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_EXPORT] = pe.DataDirectory{
		VirtualAddress: sectionRVA, Size: exportBytes,
	}
	return header
}

func sectionHeader(padded int, used uint32) pe.SectionHeader32 {
	return pe.SectionHeader32{
		Name:        [8]uint8{'.', 'e', 'd', 'a', 't', 'a'},
		VirtualSize: used, VirtualAddress: sectionRVA,
		SizeOfRawData: uint32(padded), PointerToRawData: alignment,
		Characteristics: pe.IMAGE_SCN_CNT_INITIALIZED_DATA | pe.IMAGE_SCN_MEM_READ,
	}
}

func write(to *bytes.Buffer, values ...any) {
	for _, value := range values {
		// A buffer takes everything, and every value here has a fixed size.
		_ = binary.Write(to, binary.LittleEndian, value)
	}
}

func pad(b *bytes.Buffer) {
	b.Write(make([]byte, (alignment-b.Len()%alignment)%alignment))
}
