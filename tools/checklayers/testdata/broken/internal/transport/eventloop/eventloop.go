package eventloop
