import socket,time
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)
for i in range(20000):
    s.sendto(str(i).encode(),("10.9.0.2",7777)); time.sleep(0.00003)
