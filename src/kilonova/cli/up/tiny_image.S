# SPDX-License-Identifier: Apache-2.0
# The boot sector of the image `tiny` (tiny_image.py, which holds it assembled): a guest that counts its boots.
#
#   as --32 tiny_image.S -o tiny.o && ld -m elf_i386 -Ttext 0x7c00 --oformat binary tiny.o -o tiny.bin
#
# It says how often it was booted, on the first serial port and on the screen, and waits: for the power button, and for
# a key on either: q powers off, r resets. A PCI device that is to be unplugged from a machine of type pc is ejected.
# Between two of the BIOS's 18 ticks a second it is halted.
        .code16
        .globl  _start

        COUNT = 0x7e00                  # where the sector with the count is read to, right after this one
        DISKS = 0x475                   # the BIOS's number of disks
        SERIAL_DATA = 0x3f8
        SERIAL_STATUS = 0x3fd           # bit 0: a byte has come; bit 5: one can be sent
        PM1_STATUS = 0x600              # ACPI, where SeaBIOS puts it on both machine types; bit 8: the power button
        PM1_ENABLE = 0x602
        PM1_CONTROL = 0x604
        POWER_BUTTON = 0x100
        POWER_OFF = 0x2000              # sleep type 0, as QEMU means it, and the bit that goes to sleep
        PCI_DOWN = 0xae04               # ACPI hotplug of machine type pc: slots that are to be ejected, a bit each
        PCI_EJECT = 0xae08              # ejects the slot of the lowest bit
        OBEYS_ACPI = 0x7c00 + 445       # a byte that tiny_image.py may clear, before the table of partitions

_start: cli
        xor     %ax, %ax
        mov     %ax, %ds
        mov     %ax, %es
        mov     %ax, %ss
        mov     $0x7c00, %sp
        sti
        cld
        ljmp    $0, $counting           # a CD is started at 0x7c0:0
counting:
        mov     %dl, drive
        mov     $0x0201, %ax            # read one sector
        call    count
        jnc     1f
        movw    $0, COUNT               # as on a CD, whose sectors are others
        jmp     2f
1:      incw    COUNT
        mov     $0x0301, %ax            # write it; on a disk that cannot be written every boot is the first
        call    count

2:      cmpb    $0, OBEYS_ACPI          # first, so that who reads the line may press the button
        je      3f
        mov     $PM1_ENABLE, %dx
        mov     $POWER_BUTTON, %ax
        out     %ax, %dx

3:      mov     $says, %si
        call    print
        mov     $boot, %si
        call    print
        mov     COUNT, %ax
        call    number
        mov     $disks, %si
        call    print
        movzbw  DISKS, %ax
        call    number
        mov     $line, %si
        call    print

wait:   hlt
        mov     $SERIAL_STATUS, %dx
        in      %dx, %al
        test    $1, %al
        jz      1f
        mov     $SERIAL_DATA, %dx
        in      %dx, %al
        jmp     key
1:      mov     $1, %ah                 # has a key been pressed?
        int     $0x16
        jz      2f
        xor     %ah, %ah                # which?
        int     $0x16
key:    cmp     $'q', %al
        je      leave
        cmp     $'r', %al
        je      reset
2:      cmpb    $0, OBEYS_ACPI
        je      wait
        mov     $PCI_DOWN, %dx
        in      %dx, %eax
        inc     %eax                    # all bits are set where there is no such port
        jz      3f
        dec     %eax
        jz      3f
        mov     $PCI_EJECT, %dx
        out     %eax, %dx
3:      mov     $PM1_STATUS, %dx
        in      %dx, %ax
        test    $POWER_BUTTON >> 8, %ah
        jz      wait
        mov     $says, %si
        call    print
        mov     $button, %si
        call    print
leave:  mov     $says, %si
        call    print
        mov     $off, %si
        call    print
        mov     $PM1_CONTROL, %dx
        mov     $POWER_OFF, %ax
        out     %ax, %dx
        jmp     wait

reset:  mov     $0xfe, %al              # the keyboard controller pulls the processor's reset line
        out     %al, $0x64
        jmp     wait

count:  mov     $COUNT, %bx             # %ah: 2 reads, 3 writes the second sector
        mov     $2, %cx
        mov     drive, %dl
        xor     %dh, %dh
        int     $0x13
        ret

number: mov     $10, %bx                # print %ax
        xor     %cx, %cx
1:      xor     %dx, %dx
        div     %bx
        push    %dx
        inc     %cx
        test    %ax, %ax
        jnz     1b
2:      pop     %ax
        add     $'0', %al
        call    letter
        loop    2b
        ret

print:  lodsb                           # print the text at %si
        test    %al, %al
        jz      1f
        call    letter
        jmp     print
1:      ret

letter: push    %ax                     # print %al
        mov     $7, %bx
        mov     $0x0e, %ah
        int     $0x10
        mov     $SERIAL_STATUS, %dx
1:      in      %dx, %al
        test    $0x20, %al
        jz      1b
        pop     %ax
        mov     $SERIAL_DATA, %dx
        out     %al, %dx
        ret

drive:  .byte   0
says:   .asciz  "Kilonova test image: "
boot:   .asciz  "boot "
disks:  .asciz  ", disks "
button: .asciz  "power button\r\n"
off:    .ascii  "powering off"
line:   .asciz  "\r\n"
